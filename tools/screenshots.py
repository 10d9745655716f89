"""Pictures of the local page for README and docs, taken of the example's runs in headless Chromium.

    python -m tools.screenshots

Needs Chromium, and Playwright from the test extra.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Literal

from tools.generated import ROOT

EXAMPLE = ROOT / "examples" / "runs" / "quickstart" / "runs.zip"
OUT = ROOT / "docs" / "images"
PICTURES: dict[str, tuple[str, Literal["light", "dark"], int, int]] = {
    "page-runs": ("", "light", 1440, 420),
    "page-run": ("run/runs/with-steps", "light", 1200, 1000),
    "page-compare": ("compare?run=runs/answer-only&run=runs/with-steps", "light", 1200, 1000),
    "page-data": ("data?recipe=smoke-tiny", "light", 1200, 1300),
    "page-run-dark": ("run/runs/with-steps", "dark", 420, 900),
}
"""Name, address, colours, width and height in CSS pixels."""


def main() -> int:
    """Start the page, take the pictures, stop it."""
    from playwright.sync_api import sync_playwright

    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        print("Chromium is needed and was not found", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        folder = Path(place) / "quickstart"
        with zipfile.ZipFile(EXAMPLE) as example:
            example.extractall(folder)
        environment = os.environ | {"WORKINGS_CACHE": str(Path(place) / "cache")}
        # So that the page knows the verdict: it does not verify by itself.
        subprocess.run([sys.executable, "-m", "workings", "verify", str(folder)], check=True, env=environment)
        page = subprocess.Popen(
            [sys.executable, "-m", "workings", "ui", str(folder), "--port", "0", "--no-browser"], text=True, cwd=folder,
            stdout=subprocess.PIPE, env=environment)
        assert page.stdout is not None
        link = page.stdout.readline().strip()
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for name, (address, scheme, width, height) in PICTURES.items():
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
            tab = context.new_page()
            tab.goto(link)
            tab.goto(link.split("?")[0] + address)
            tab.wait_for_timeout(1500)  # curves are drawn after the page
            tab.screenshot(path=str(OUT / f"{name}.png"))
            context.close()
        browser.close()
        page.send_signal(signal.SIGINT)
        page.wait(30)
        page.stdout.close()
    print("\n".join(f"docs/images/{name}.png" for name in PICTURES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
