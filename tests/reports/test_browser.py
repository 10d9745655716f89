"""The page in a real browser: its style passes its own content security policy, in light and dark."""

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.reports.making import two_runs
from workings.evaluation.comparison.compare import compare
from workings.reports.html import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or ""
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr")


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Color of the top left corner; every PNG filter leaves the very first pixel as it is."""
    data, place = b"", 8
    while place < len(png):
        size = int.from_bytes(png[place:place + 4], "big")
        if png[place + 4:place + 8] == b"IDAT":
            data += png[place + 8:place + 8 + size]
        place += 12 + size
    row = zlib.decompressobj().decompress(data, 5)
    return row[1], row[2], row[3]


@pytest.mark.skipif(not BROWSER, reason="needs chromium")
@pytest.mark.parametrize(("scheme", "page_color", "size"), [
    ("light", (0xFB, 0xFA, 0xF8), "1100,1400"), ("dark", (0x14, 0x15, 0x17), "500,1400")])
def test_the_page_is_styled_and_nothing_is_refused(tmp_path: Path, scheme: str, page_color: tuple[int, int, int],
                                                   size: str) -> None:
    runs = two_runs(tmp_path)
    page = write_report(tmp_path / "page.html", runs, compare(*runs))
    dark = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0") if scheme == "dark" else ()
    done = subprocess.run([BROWSER, *QUIET, *dark, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}",
                           f"--screenshot={tmp_path / 'page.png'}", page.as_uri()], capture_output=True, text=True)
    assert (tmp_path / "page.png").is_file(), done.stderr
    assert first_pixel((tmp_path / "page.png").read_bytes()) == page_color
    refused = [line for line in done.stderr.splitlines() if "CONSOLE" in line or "Refused" in line]
    assert refused == []
