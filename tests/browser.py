"""A browser without a window, for tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or ""
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium, closed at the end. Skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not BROWSER:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()
