"""The pictures of docs/studio.md, taken from the studio itself.

uv run --all-extras --group dev --group docs python docs/studio/pictures.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def story(page: Page, address: str) -> None:
    """The pages of docs/studio.md in their order, each photographed once it stands still."""

    def take(name: str) -> None:
        page.wait_for_timeout(500)  # charts and colours settle
        page.screenshot(path=HERE / f"{name}.png")

    page.goto(address)
    page.wait_for_selector(".drop")
    take("home")
    page.locator(".example").click()
    page.wait_for_selector(".copy")
    take("columns")
    page.get_by_role("link", name="What the log can tell").last.click()
    page.wait_for_selector(".chart svg")
    take("tell")
    page.get_by_role("link", name="Learn").last.click()
    page.get_by_label("Name of the run").fill("The shipped example")
    page.get_by_role("button", name="Learn").click()
    page.wait_for_selector(".verdict")
    page.wait_for_selector(".chart svg")
    take("decision")
    page.get_by_role("tab", name="Map").click()
    page.locator("table.map button").first.click()
    page.wait_for_selector(".after")
    take("state")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Move limits").click()
    page.wait_for_selector(".at-once")
    page.get_by_label("Limit of stockout as a number").fill("0.2")
    page.keyboard.press("Tab")
    page.wait_for_selector(".exact .verdict")
    page.evaluate("scrollTo(0, 0)")
    take("limits")
    page.get_by_role("button", name="Keep as a run").click()
    page.wait_for_url(re.compile(r"(?<!/limits)$"))
    page.wait_for_selector(".verdict")
    page.goto(f"{address.split('#')[0]}#/compare")
    page.wait_for_selector(".chart svg")
    take("compare")


def telephone(browser: Browser, address: str) -> None:
    """The first run, in the dark."""
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.goto(address)
    page.wait_for_selector(".drop")
    page.goto(f"{address.split('#')[0]}#/runs")
    page.get_by_role("link", name="The shipped example", exact=True).click()
    page.wait_for_selector(".chart svg")
    page.wait_for_timeout(500)
    page.screenshot(path=HERE / "phone.png")


def smaller(path: Path) -> None:
    """256 colours: a third of the bytes, and nobody sees it."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            path, optimize=True
        )


def main() -> None:
    """Start the studio, walk through it, stop it."""
    with tempfile.TemporaryDirectory() as space, sync_playwright() as playwright:
        command = [sys.executable, "-m", "dualq", "studio", "--no-browser", "--workspace", space]
        studio = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        assert studio.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/#token=\S+", studio.stdout.readline())
        assert found is not None
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.set_default_timeout(90_000)
            story(page, found[0])
            telephone(browser, found[0])
        finally:
            browser.close()
            studio.terminate()
            studio.wait(20)
    for path in HERE.glob("*.png"):
        smaller(path)


if __name__ == "__main__":
    main()
