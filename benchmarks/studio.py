"""The studio: how soon it is there, how soon it answers, how much memory it takes, and whether it bears many at once.

uv run --all-extras --group bench python benchmarks/studio.py [--long] [--chromium /usr/bin/chromium]

up        from the command to the first answer; the second start of two, so that files are in the cache of the disk
page      from asking for the page to its first page being there, in Chromium
preview   the first 50 rows of a Parquet file with a million rows, 3 s after the page was opened
limit     from moving a slider to the numbers from the curve, in the page; and to the exact policy
memory    of the server before a page is opened, of all processes while a log and a run are looked at (the proportional
          set size: pages that processes share are counted once)
clients   50 at once, each asking for the runs and for one decision, ten times each
--long    a log of ten million rows, given by its path: look, what it can tell, learn; peak memory of the processes
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from common import markdown, publish

PAGE = Path(__file__).parents[1] / "src" / "dualq" / "app" / "studio" / "page"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Studio:
    """The command, started as a person starts it."""

    def __init__(self, *more: str):
        self.space = tempfile.mkdtemp()
        begun = time.perf_counter()
        command = [sys.executable, "-m", "dualq", "studio", *more, "--no-browser", "--workspace", self.space]
        self.process = subprocess.Popen([*command, "--stop-after", "1800"], stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http\S+", self.process.stdout.readline())[0]
        self.root, _, self.token = self.address.partition("/#token=")
        while True:
            try:
                urllib.request.urlopen(f"{self.root}/", timeout=5).read()
                break
            except OSError:
                time.sleep(0.005)
        self.up = time.perf_counter() - begun

    def ask(self, method, path, body=None):
        """(seconds, what was said)."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        begun = time.perf_counter()
        asked = urllib.request.Request(f"{self.root}/api{path}", content, headers, method=method)
        with urllib.request.urlopen(asked, timeout=1200) as answer:
            said = json.loads(answer.read())
        return time.perf_counter() - begun, said

    def learned(self, columns, log="example"):
        """(seconds, the run)."""
        begun = time.perf_counter()
        job = self.ask("POST", "/jobs", {"log": log, "columns": columns})[1]["id"]
        while True:
            found = next(one for one in self.ask("GET", "/jobs")[1] if one["id"] == job)
            if found["status"] not in ("queued", "running"):
                assert found["status"] == "done", found
                return time.perf_counter() - begun, found["run"]
            time.sleep(0.1)

    def memory(self) -> float:
        """Megabytes of the server and its processes together, shared pages once."""
        whole = psutil.Process(self.process.pid)
        return sum(one.memory_full_info().pss for one in (whole, *whole.children(recursive=True))) / 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.space, ignore_errors=True)


def rows_of(number: int, path: Path) -> Path:
    """A log of orders, drawn all at once: as many shops as it takes, a hundred days each."""
    random, shops = np.random.default_rng(0), number // 100
    stock, columns = np.full(shops, 3), {name: [] for name in ("shop", "day", "stock", "order", "profit", "late")}
    for day in range(100):
        order = random.integers(0, 3, shops) * 2
        sold = np.minimum(stock + order, random.integers(0, 5, shops))
        for name, value in zip(
            columns, (np.arange(shops), day, stock, order, 3.0 * sold - order, stock == 0), strict=True
        ):
            columns[name].append(np.broadcast_to(value, shops).copy())
        stock = np.minimum(8, stock + order - sold)
    table = {name: np.concatenate(values) for name, values in columns.items()}
    pq.write_table(pa.table(table | {"late": table["late"].astype(np.int8)}), path)
    return path


def clients(studio: Studio, run: str, number=50, each=10):
    """Seconds of every answer, of so many who ask at once; and how many failed."""
    seconds, failed = [], []

    def one():
        for _ in range(each):
            for path in ("/runs", f"/runs/{run}"):
                try:
                    seconds.append(studio.ask("GET", path)[0])
                except OSError as error:
                    failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(seconds), len(failed)


MOVED = """async ([low, high]) => {
  const slider = document.querySelector('input[type=range]'), seconds = [];
  for (let i = 1; i <= 20; i++) {
    const begun = performance.now();
    slider.value = low + (high - low) * i / 21;
    slider.dispatchEvent(new Event('input'));
    document.querySelector('.at-once').getBoundingClientRect();
    seconds.push(performance.now() - begun);
    await new Promise(r => setTimeout(r, 30));
  }
  return seconds;
}"""


def in_browser(studio: Studio, run: str, chromium: str):
    """(seconds to the first page, milliseconds from a moved slider to the numbers, seconds to the exact policy)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.goto("about:blank")
        begun = time.perf_counter()
        page.goto(studio.address)
        page.wait_for_selector(".drop")
        ready = time.perf_counter() - begun
        page.goto(f"{studio.root}/#/run/{run}/limits")
        page.wait_for_selector(".chart svg")
        slider = page.locator("input[type=range]").first
        ends = [float(slider.get_attribute(end)) for end in ("min", "max")]
        moved = page.evaluate(MOVED, ends)
        page.wait_for_timeout(2000)
        begun = time.perf_counter()
        slider.fill(str(0.4 * ends[0] + 0.6 * ends[1]))
        page.wait_for_selector(".exact:not(.waiting) .verdict")
        page.wait_for_timeout(400)
        page.wait_for_selector(".exact:not(.waiting) .verdict")
        exact = time.perf_counter() - begun
        browser.close()
    return ready, statistics.median(moved), exact


def measure(chromium: str | None, folder: Path):
    Studio().stop()
    million = rows_of(1_000_000, folder / "million.parquet")
    studio = Studio(str(million))
    idle = studio.memory()
    studio.ask("GET", "/session")  # what the page does first
    time.sleep(3.0)
    preview, _ = studio.ask("POST", "/logs/given/preview", {})
    again, _ = studio.ask("POST", "/logs/given/preview", {})
    looked, _ = studio.ask("POST", "/logs/given/look", {})
    columns = studio.ask("GET", "/logs")[1][-1]["columns"]
    learned, run = studio.learned(columns)
    first = studio.ask("GET", f"/runs/{run}")[0]
    opened = studio.ask("GET", f"/runs/{run}")[0]
    curve = studio.ask("GET", f"/runs/{run}/curve?cost=stockout")[0]
    curve_again = studio.ask("GET", f"/runs/{run}/curve?cost=stockout")[0]
    used = studio.memory()
    ready, moved, exact = in_browser(studio, run, chromium) if chromium else (None, None, None)
    seconds, failed = clients(studio, run)
    after = psutil.Process(studio.process.pid).memory_info().rss / 1e6
    own = sum(path.stat().st_size for path in PAGE.rglob("*") if path.is_file() and "vendor" not in path.parts)
    vendor = sum(path.stat().st_size for path in (PAGE / "vendor").iterdir())
    rows = [
        ["server up, second start", f"{studio.up:.2f} s", "2 s"],
        ["page ready, once the server is up", "" if ready is None else f"{ready:.2f} s", "1 s"],
        ["first preview of 1,000,000 rows (Parquet), 3 s after the page was opened", f"{preview:.2f} s", "1 s"],
        ["the same again", f"{again:.2f} s", ""],
        ["look at 1,000,000 rows: parts, bad rows, histograms", f"{looked:.2f} s", ""],
        ["learn from the shipped log, the process just started", f"{learned:.1f} s", ""],
        ["a run opened for the first time; again", f"{first:.2f} s; {1e3 * opened:.0f} ms", ""],
        ["the curve of the shipped log computed, 41 points; again", f"{curve:.2f} s; {1e3 * curve_again:.0f} ms", ""],
        ["a moved limit answered from the curve, in the page", "" if moved is None else f"{moved:.1f} ms", "200 ms"],
        ["the exact policy after a moved limit (350 ms of it waiting)", "" if exact is None else f"{exact:.2f} s", ""],
        ["memory of the server, idle", f"{idle:.0f} MB", "300 MB"],
        ["memory of all processes, a log of 1,000,000 rows and a run looked at", f"{used:.0f} MB", ""],
        ["memory of the server after 50 clients", f"{after:.0f} MB", ""],
        ["the page's own files; the chart library", f"{own / 1e3:.0f} kB; {vendor / 1e3:.0f} kB", "1 MB"],
        [
            f"50 clients at once, {len(seconds):,} answers: median, 95%, slowest; failed",
            f"{1e3 * seconds[len(seconds) // 2]:.0f}, {1e3 * seconds[int(0.95 * len(seconds))]:.0f}, "
            f"{1e3 * seconds[-1]:.0f} ms; {failed}",
            "",
        ],
    ]
    studio.stop()
    return markdown(["what", "measured", "bar"], rows)


def measure_long(folder: Path):
    """Ten million rows: seconds, and the peak memory of the process that does it."""
    studio = Studio(str(rows_of(10_000_000, folder / "long.parquet")))
    peaks: dict[int, float] = {}
    done = threading.Event()

    def watch():
        while not done.wait(0.2):
            for one in psutil.Process(studio.process.pid).children(recursive=True):
                try:
                    peaks[one.pid] = max(peaks.get(one.pid, 0.0), one.memory_info().rss / 1e9)
                except psutil.Error:
                    continue

    watching = threading.Thread(target=watch)
    watching.start()
    looked, seen = studio.ask("POST", "/logs/given/look", {})
    told, _ = studio.ask("POST", "/logs/given/tell", {"columns": seen["proposed"]})
    of_log = max(peaks.values())
    learned, _ = studio.learned(seen["proposed"], "given")
    done.set()
    watching.join()
    server = psutil.Process(studio.process.pid).memory_info().rss / 1e9
    studio.stop()
    rows = [
        ["look", f"{looked:.1f} s", f"{of_log:.1f} GB"],
        ["what it can tell", f"{told:.1f} s", f"{of_log:.1f} GB"],
        ["learn", f"{learned:.1f} s", f"{max(peaks.values()):.1f} GB"],
        ["the server meanwhile", "", f"{server:.2f} GB"],
    ]
    return markdown(["10,000,000 rows", "wall time", "peak memory of the process"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as held:
        text = measure(asked.chromium, Path(held))
        if asked.long:
            text += "\n\n" + measure_long(Path(held))
    busy = (
        f"Load average {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores: wall times are those of a machine that busy."
    )
    publish("The studio (benchmarks/studio.py)", f"{busy}\n\n{text}")
