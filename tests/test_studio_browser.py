"""The studio as a person uses it, in Chromium: from a log that is dropped to a report that is taken away.

Nothing may be written to the console, no other host may be asked, labels that are markup must stay text, and every page
must pass axe-core (tests/vendor: contrast, labels, roles).
"""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import dualq
from dualq.app.report import charts
from dualq.app.report.page import page as report_page
from dualq.worlds import sample_log

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the studio is not tried in a browser"),
]
pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
PATIENCE = 90_000  # milliseconds: a machine that is busy is no failure
expect = sync_api.expect
expect.set_options(timeout=PATIENCE)

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
NASTY = '<img src=x onerror="window.hit=1">'
LEFTWARDS = "\u202eevil\u202c ${window.hit=2} {{1+1}} \"'`"
LONG = "L" * 10_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass
class Person:
    """Somebody at a browser."""

    page: object
    address: str
    said: list[str] = field(default_factory=list)  # what the console and the network complain of

    def go(self, where: str) -> None:
        self.page.goto(f"{self.address.split('#')[0]}#{where}")

    def accessible(self) -> None:
        """What axe-core finds wrong with the page as it is, at the levels A and AA."""
        self.page.evaluate(AXE)
        found = self.page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], iframes: false})"
            ".then(r => r.violations.map(v => `${v.id}: ${v.nodes.map(n => n.html.slice(0, 120)).join(' | ')}`))"
        )
        assert found == []

    def fits(self) -> None:
        """Nothing sticks out of the screen at the side."""
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The command as a person starts it; (address, workspace)."""
    space = tmp_path_factory.mktemp("studio")
    command = [
        sys.executable,
        "-m",
        "dualq",
        "studio",
        "--no-browser",
        "--workspace",
        str(space),
        "--stop-after",
        "1800",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    address = re.search(r"http://127\.0\.0\.1:\d+/#token=\S+", process.stdout.readline())[0]
    yield address, space
    process.terminate()
    assert process.wait(20) is not None
    process.stdout.close()
    assert list((space / ".part").iterdir()) == []


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def person(studio, browser):
    address, _ = studio
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    somebody = Person(context.new_page(), address)
    page, own = somebody.page, address.split("#")[0]
    page.on("console", lambda line: somebody.said.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: somebody.said.append(str(error)))
    page.on("request", lambda r: somebody.said.append(r.url) if not r.url.startswith((own, "data:")) else None)
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector(".drop")
    assert "token" not in page.url
    yield somebody
    assert page.evaluate("window.hit") is None, "a label was run"
    context.close()
    assert somebody.said == []


def written(path: Path, rows, names) -> Path:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([names, *rows])
    return path


def orders(hostile: bool = False) -> list[list[object]]:
    """Orders of a few shops; with labels that somebody would like to see run."""
    drawn, rows = random.Random(7), []
    seasons = [NASTY, LEFTWARDS, LONG] if hostile else ["summer", "winter"]
    for shop in range(6):
        stock = 2
        for day in range(150):
            order = drawn.choice([0, 2])
            sold = min(stock + order, drawn.choice([0, 1, 2, 3]))
            rows.append([shop, day, stock, seasons[day // 20 % len(seasons)], order, 3 * sold - order, int(stock == 0)])
            stock = min(4, stock + order - sold)
    return rows


def line(page):
    """The line to copy."""
    return page.locator(".copy code").first


NAMES = ["shop", "day", "stock", "season", "order", "profit", "stockout"]


def test_from_a_log_to_a_report(person, studio, tmp_path):
    """The whole story: drop, columns, what it tells, learn, decide, ask why, move a limit, keep it, take the report."""
    page = person.page
    page.set_input_files("#file", written(tmp_path / "orders.csv", orders(), NAMES))
    page.wait_for_selector(".copy")
    assert page.locator(".zone", has_text="Action").first.inner_text().split("\n")[2] == "order"
    page.get_by_label("Part of season").select_option("")  # what was clicked is in the line to copy
    expect(line(page)).not_to_contain_text("season")
    page.get_by_label("Part of season").select_option("state")
    expect(line(page)).to_contain_text("--state stock,season")
    person.accessible()
    page.get_by_role("link", name="What the log can tell").last.click()
    page.wait_for_selector(".pairs-line")
    assert page.locator(".pairs-header span").all_inner_texts() == ["state", "0", "2"]
    page.get_by_label("Search states").fill("stock 0 winter")
    assert page.locator(".pairs-lines .pairs-line").count() == 1
    person.accessible()
    page.get_by_role("link", name="Learn").last.click()
    page.get_by_label("Name of the run").fill("first")
    page.get_by_role("button", name="Learn").click()
    page.wait_for_selector(".verdict")
    page.wait_for_selector(".chart svg")
    shown = page.locator(".tile", has_text="expected").first.inner_text().split("\n")[1]

    page.get_by_role("tab", name="Map").click()
    page.locator("table.map button").first.focus()
    page.keyboard.press("Enter")  # why? by the keyboard alone
    page.wait_for_selector(".after")
    page.get_by_role("button", name="All rows in this state").click()
    page.get_by_role("region", name="Rows of the log").wait_for()
    person.accessible()
    page.keyboard.press("Escape")

    page.get_by_role("link", name="Move limits").click()
    page.wait_for_selector(".at-once")
    slider = page.get_by_label("Limit of stockout", exact=True)
    before = page.locator(".at-once").inner_text()
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    slider.fill(str(low + 0.3 * (high - low)))
    assert page.locator(".at-once").inner_text() != before  # at once, from the curve
    page.wait_for_selector(".exact .verdict")
    person.accessible()
    page.get_by_label("Limit of stockout as a number").fill("0.0001")
    page.keyboard.press("Tab")
    assert float(slider.get_attribute("min")) <= 0.0001 == float(slider.input_value())  # it reaches what was typed
    page.get_by_role("button", name="Take the nearest").click()
    page.wait_for_selector(".exact .verdict")
    page.get_by_role("button", name="Keep as a run").click()
    expect(page).not_to_have_url(re.compile("/limits$"))
    page.wait_for_selector(".verdict")

    person.go("/compare")
    page.wait_for_selector(".chart svg")
    assert shown in page.locator("#main table").inner_text()
    person.go("/runs")
    page.get_by_role("link", name="first", exact=True).click()
    page.wait_for_selector(".verdict")
    page.get_by_role("link", name="Report", exact=True).click()
    page.frame_locator("iframe").locator(".verdict").wait_for()
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download the report").click()
    report = taken.value.path().read_text()
    assert shown in report
    _, space = studio
    assert report in {path.read_text() for path in space.glob("runs/*/report.html")}


def test_a_broken_log_and_a_run_that_is_stopped(person, tmp_path):
    rows = orders()
    for i in (4, 90, 91):
        rows[i][5] = ""
    page = person.page
    page.set_input_files("#file", written(tmp_path / "broken.csv", rows, NAMES))
    page.get_by_text("3 rows (rows 5, 91, 92): profit is missing").wait_for()
    columns = page.url
    page.get_by_role(
        "link", name="Learn", exact=True
    ).first.click()  # it would only fail: that is said beside the button
    expect(page.get_by_role("alert")).to_contain_text("row 5 (line 6): profit is missing")
    expect(page.get_by_role("button", name="Learn")).to_be_disabled()
    person.accessible()
    page.get_by_role("link", name="Back to the columns").click()
    page.get_by_label("Set bad rows aside").check()
    expect(line(page)).to_contain_text("--skip-bad")
    other = page.context.new_page()  # another tab knows what was chosen
    other.goto(person.address)
    other.wait_for_selector(".drop")
    other.goto(columns)
    expect(other.get_by_label("Set bad rows aside")).to_be_checked()
    other.close()
    page.get_by_role("link", name="Learn", exact=True).first.click()
    page.get_by_label("Name of the run").fill("broken")
    page.get_by_label("The lowest that a reward can be").fill("-2")
    page.get_by_label("The highest that a reward can be").fill("9")
    page.get_by_label("The rows set aside are like the others").check()
    expect(line(page)).to_contain_text("--reward-range=-2,9 --assume 'set aside'")
    page.get_by_role("button", name="Learn").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped", exact=True).wait_for()
    page.get_by_role("button", name="Learn").click()
    page.wait_for_selector(".verdict")
    page.get_by_text("Details", exact=True).click()
    expect(page.locator(".more")).to_contain_text("3 bad rows")
    expect(page.locator(".more")).to_contain_text("-2 to 9, as you said")
    expect(page.locator("#main")).to_contain_text("decisions from broken.csv")


def test_a_run_that_was_done_before_the_page_heard_of_it_is_shown(person, tmp_path):
    page = person.page
    page.add_init_script("""
        const asked = window.fetch;
        window.fetch = async (address, how) => {
          const answer = await asked(address, how);
          if (address !== "/api/jobs" || how.method !== "GET") return answer;
          return new Response(JSON.stringify((await answer.json()).filter((job) => job.status === "done")));
        };
    """)
    page.reload()
    page.set_input_files("#file", written(tmp_path / "quick.csv", orders(), NAMES))
    page.wait_for_selector(".copy")
    page.get_by_role("link", name="Learn", exact=True).first.click()
    page.get_by_role("button", name="Learn").click()
    page.wait_for_selector(".verdict")


def test_hostile_labels_stay_text_on_every_page(person, tmp_path):
    page = person.page
    file = written(tmp_path / "hostile.csv", orders(hostile=True), [*NAMES[:3], NASTY, *NAMES[4:]])
    page.set_input_files("#file", file)
    page.wait_for_selector(".copy")
    page.get_by_label(f"Part of {NASTY}").select_option("state")
    expect(line(page)).to_contain_text("img src=x")
    assert NASTY in page.locator(".preview").inner_text()
    person.fits()
    page.get_by_role("link", name="What the log can tell").last.click()
    page.wait_for_selector(".pairs-line")
    page.get_by_role("link", name="Learn").last.click()
    page.get_by_role("button", name="Learn").click()
    page.wait_for_selector(".verdict")
    page.wait_for_selector(".chart svg")
    person.fits()
    page.get_by_role("tab", name="Map").click()
    page.locator("table.map button").first.click()
    page.wait_for_selector(".after")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Report", exact=True).click()
    page.frame_locator("iframe").locator(".verdict").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_shipped_log_on_a_telephone(studio, browser, scheme):
    """390 pixels: nothing sticks out, and contrast holds in both colour schemes; of a run that `learn --out` wrote."""
    address, space = studio
    run = space / "runs" / "shipped"
    if not run.exists():
        fit = dualq.learn(sample_log.path(), **sample_log.COLUMNS)
        fit.save(run)
        fit.report(run / "report.html")
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    somebody = Person(context.new_page(), address)
    page = somebody.page
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.locator(".example").click()
    page.wait_for_selector(".copy")
    somebody.fits()
    somebody.go("/runs")
    page.locator(".card.run a").first.click()
    page.wait_for_selector(".chart svg")
    somebody.fits()
    somebody.accessible()
    somebody.go("/log/example/tell")
    page.wait_for_selector(".pairs-line")
    page.wait_for_selector(".chart svg")
    somebody.fits()
    somebody.accessible()
    context.close()


def test_maps_of_policies_are_not_cut_off_in_the_report(browser, tmp_path):
    """Twelve columns across, with names of several words: at no width is a part of a map out of sight."""
    actions = ["move left by one step", "stay where it is"]
    cells = [charts.Cell(x, y, actions[(x + y) % 2], 5 * y) for x in range(12) for y in range(5)]
    drawn = charts.policy_map([("new policy", cells), ("so far, most often", cells)], "position across", "y", actions)
    (tmp_path / "map.html").write_text(report_page("maps", drawn))
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "map.html").as_uri())
        hidden = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        assert page.evaluate(hidden) == 0
        page.close()


def test_without_the_token_the_page_says_where_to_find_it(studio, browser):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(studio[0].split("#")[0])
    page.get_by_text("open the address that `dualq studio` printed").wait_for()
    page.close()
