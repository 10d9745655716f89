"""A browser without a window, for tests of pages."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or ""
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


NewPage = Callable[..., Any]
"""Opens a page in a separate context, with Playwright's options of a context."""
PATIENCE = 240_000
"""Milliseconds, only to end a test that hangs: a busy machine must not decide what passes."""


@contextmanager
def chromium() -> Iterator[NewPage]:
    """Chromium, closed at the end; skips the test without one."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not BROWSER:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=QUIET, timeout=PATIENCE)

        def new_page(**options: Any) -> Any:
            page = browser.new_context(**options).new_page()
            page.set_default_timeout(PATIENCE)
            return page
        try:
            yield new_page
        finally:
            browser.close()
