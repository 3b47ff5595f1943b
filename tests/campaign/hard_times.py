"""The command line where something is wrong with the world: one line or an answer, no traceback, no hang.

`python tests/campaign/hard_times.py` goes through all of them, in processes of their own, and prints what was wrong.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from command_lines import STAGE

import dualq

DUALQ = [sys.executable, "-m", "dualq"]
LIMIT = 60.0  # seconds
LEARN = ["learn", "log.csv", "--time", "time"]


def prepare(folder: Path) -> None:
    """The log that all of them read."""
    rng = random.Random(0)
    rows = [f"{rng.randrange(12)},{rng.choice('abc')},{rng.randrange(5)},{i}\n" for i in range(2000)]
    (folder / "log.csv").write_text("state,action,reward,time\n" + "".join(rows))


def run(
    folder: Path,
    words: list[str],
    env: Mapping[str, str] | None = None,
    limit: Callable[[], None] | None = None,
    shell: str | None = None,
    meanwhile: Callable[[subprocess.Popen[str]], None] = lambda process: None,
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    source = str(Path(dualq.__file__).parents[1])
    known = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "NUMBA_CACHE_DIR")}
    environment = known | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if env is None else dict(env)
    # Python keeps half of a compiled module where no more fits into the file, and stumbles over it for ever
    environment |= {"PATH": os.environ["PATH"], "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    line = [*DUALQ, *words] if shell is None else ["bash", "-c", shell, *DUALQ, *words]
    process = subprocess.Popen(
        line, cwd=folder, env=environment, preexec_fn=limit,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    meanwhile(process)
    out, err = process.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess(line, process.returncode, out, err)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on standard error, without the stages that last."""
    return [line for line in done.stderr.splitlines() if not STAGE.fullmatch(line)]


def refused(done: subprocess.CompletedProcess[str], words: str = "") -> str | None:
    """What is wrong, where the answer should be one line and the exit code 2."""
    lines = said(done)
    right = done.returncode == 2 and len(lines) == 1 and lines[0].startswith("dualq: ") and words in lines[0]
    return None if right else f"exit code {done.returncode}: {done.stderr[-600:]}"


def answered(done: subprocess.CompletedProcess[str], words: str = "") -> str | None:
    """What is wrong, where it should work as ever."""
    right = done.returncode == 0 and not said(done) and words in done.stdout
    return None if right else f"exit code {done.returncode}: {done.stderr[-600:]}"


def nothing_left(folder: Path) -> str | None:
    """What is wrong, where nothing should have been written."""
    left = [str(path) for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return f"left behind: {left}" if left else None


# ---- what can be wrong with the world


def full_disk(folder: Path) -> str | None:
    small = "mkdir -p small && mount -t tmpfs -o size=60k tmpfs small && $0 $*; code=$?; ls -A small/run; exit $code"
    done = run(folder, [*LEARN, "--out", "small/run"], shell=f'unshare -m bash -c \'{small}\' "$0" "$@"')
    if "unshare" in done.stderr or "mount" in done.stderr:
        return None  # not allowed here; large_file asks the same
    return refused(done, "No space left on device") or (done.stdout or None)


def large_file(folder: Path) -> str | None:
    done = run(folder, [*LEARN, "--out", "run"], limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    return refused(done, "File too large") or nothing_left(folder / "run")


def full_output(folder: Path) -> str | None:
    done = run(folder, [*LEARN, "--json"], shell='"$0" "$@" >/dev/full')
    return refused(done, "No space left on device")


def read_only(folder: Path) -> str | None:
    return refused(run(folder, [*LEARN, "--out", "/proc/run"]), "/proc/run")


def file_in_place_of_a_folder(folder: Path) -> str | None:
    return refused(run(folder, [*LEARN, "--out", "log.csv"]), "is a file")


def no_home(folder: Path) -> str | None:
    for env in ({}, {"HOME": "/proc/nothing"}, {"HOME": "", "XDG_CACHE_HOME": "relative"}):
        if wrong := answered(run(folder, LEARN, env={**env, "TMPDIR": str(folder)}), "policy"):
            return wrong
    return None


def closed_pipe(folder: Path) -> str | None:
    for words in ([], ["--json"]):
        done = run(folder, [*LEARN, *words], shell='"$0" "$@" | head -c 1; exit "${PIPESTATUS[0]}"')
        if done.returncode not in (0, 141) or said(done):  # 0: the pipe held all of it
            return f"exit code {done.returncode}: {done.stderr[-600:]}"
    return None


def closed_output(folder: Path) -> str | None:
    done = run(folder, LEARN, shell='"$0" "$@" >&-')
    return answered(done) or answered(run(folder, LEARN, shell='"$0" "$@" 2>&-'), "policy")


def stopped(sign: int, code: int, words: list[str]) -> Callable[[Path], str | None]:
    """By a signal, once it is at work; nothing is written, and it ends at once."""

    def stop(folder: Path) -> str | None:
        began: list[float] = []

        def later(process: subprocess.Popen[str]) -> None:
            time.sleep(1.5)
            began.append(time.monotonic())
            process.send_signal(sign)

        rows = (folder / "log.csv").read_text().splitlines()
        (folder / "long.csv").write_text("\n".join([rows[0], *(rows[1:] * 500)]))
        done = run(folder, ["learn", "long.csv", "--time", "row", "--out", "run"], meanwhile=later)
        lasted = time.monotonic() - began[0]
        if done.returncode != code or said(done) != words or lasted > 30.0:
            return f"exit code {done.returncode}, {lasted:.1f} s later: {done.stderr[-600:]}"
        return nothing_left(folder / "run")

    return stop


BUSY = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from dualq.app.cli import main
from dualq.offline.careful import model

def fitted(*asked):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1000.0)

model.MANY_ENTRIES, model.fitted = 0, fitted
sys.argv = ["dualq", *sys.argv[1:]]
main()
"""


def stopped_in_threads(folder: Path) -> str | None:
    """By Ctrl-C while threads learn, which do not listen: nobody waits for them."""
    line = [sys.executable, "-c", BUSY, *LEARN, "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": str(Path(dualq.__file__).parents[1])}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 130 or said(done) != ["dualq: interrupted"]:
        return f"exit code {done.returncode}: {done.stderr[-600:]}"
    return nothing_left(folder / "run")


def little_memory(folder: Path) -> str | None:
    two = 2 * 2**30
    done = run(folder, [*LEARN, "--json"], limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (two, two)))
    wrong = answered(done, "expected")  # threads take of the addresses that are left, more or less
    return wrong and refused(done, "not enough memory")


def hardly_any_memory(folder: Path) -> str | None:
    less = 700 * 2**20
    done = run(folder, [*LEARN, "--json"], limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (less, less)))
    return refused(done, "emory")  # of ours, or of the engine


def log_that_changes(folder: Path) -> str | None:
    """Rows are added, or taken away, as long as it is read: it says so, or has seen one log and not two."""
    path, whole = folder / "live.csv", (folder / "log.csv").read_text()
    path.write_text(whole)
    done = threading.Event()

    def write() -> None:
        rng = random.Random(1)
        while not done.wait(0.002):
            cut = rng.randrange(len(whole) // 2, len(whole))
            path.write_text(whole[:cut] if rng.random() < 0.5 else whole + whole[25 : whole.index("\n", cut) + 1])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = run(folder, ["learn", "live.csv", "--time", "row", "--json"])
    finally:
        done.set()
        thread.join()
    return refused(found, "live.csv")


def pipe_as_log(folder: Path) -> str | None:
    for name in ("pipe.csv", "pipe"):
        os.mkfifo(folder / name)
        if wrong := refused(run(folder, ["learn", name]), "is a pipe or a device"):
            return wrong
    return refused(run(folder, ["learn", "/dev/zero"]), "is a pipe or a device")


def device_as_output(folder: Path) -> str | None:
    """A device is written to, and stays a device."""
    run(folder, [*LEARN, "--out", "run"])
    before = os.stat("/dev/full").st_rdev
    done = run(folder, ["export", "run", "--to", "json", "--out", "/dev/full"])
    stays = os.stat("/dev/full").st_rdev == before
    return refused(done, "/dev/full") if stays else "the device is gone"


def two_writers(folder: Path) -> str | None:
    """Four that write into one folder at the same time: what is there in the end is all of one of them."""
    rows = (folder / "log.csv").read_text().splitlines()
    for i in range(4):
        (folder / f"log{i}.csv").write_text("\n".join([rows[0], *rows[1 + 100 * i :]]))
    source = str(Path(dualq.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    lines = [[*DUALQ, "learn", f"log{i}.csv", "--time", "time", "--out", "run"] for i in range(4)]
    for process in [subprocess.Popen(line, cwd=folder, env=env, stdout=subprocess.DEVNULL) for line in lines]:
        if process.wait(LIMIT) != 0:
            return f"exit code {process.returncode}"
    fit = dualq.load(folder / "run")
    return None if fit.read.source in [f"log{i}.csv" for i in range(4)] else fit.read.source


CASES: dict[str, Callable[[Path], str | None]] = {
    "full disk": full_disk,
    "largest size of a file": large_file,
    "full output": full_output,
    "read-only folder": read_only,
    "file in place of a folder": file_in_place_of_a_folder,
    "no home": no_home,
    "closed pipe": closed_pipe,
    "closed output": closed_output,
    "SIGTERM": stopped(signal.SIGTERM, -signal.SIGTERM, []),
    "SIGINT": stopped(signal.SIGINT, 130, ["dualq: interrupted"]),
    "SIGINT while threads learn": stopped_in_threads,
    "2 GB of memory": little_memory,
    "700 MB of memory": hardly_any_memory,
    "log that changes": log_that_changes,
    "pipe as log": pipe_as_log,
    "device as output": device_as_output,
    "two writers": two_writers,
}


def faults(names: list[str]) -> Iterator[tuple[str, str]]:
    """(case, what was wrong) of those that went wrong."""
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            prepare(Path(place))
            try:
                wrong = CASES[name](Path(place))
            except subprocess.TimeoutExpired:
                wrong = f"no answer in {LIMIT:g} seconds"
        if wrong is not None:
            yield name, wrong


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore it
    found = dict(faults(sys.argv[1:] or list(CASES)))
    for name, wrong in found.items():
        print(f"{name}: {wrong}")
    print(f"{len(sys.argv[1:] or CASES)} hard times, {len(found)} of them answered wrongly")
