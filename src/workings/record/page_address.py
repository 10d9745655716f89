"""Addresses of open pages on this machine, so that a run can name the page that shows it.

Like a run's phase (`workings.record.phase`), an address is in a small file in the user's cache, which counts while its
process lives. It holds no token.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from workings.hardware.machine import cache_directory
from workings.record import atomic
from workings.record.phase import process_start


@contextlib.contextmanager
def open_page(root: Path, address: str) -> Iterator[None]:
    """Context manager that registers a page over the folder ``root`` at ``address``."""
    path = cache_directory() / "pages" / f"{os.getpid()}.json"
    facts = {"root": str(root.resolve()), "address": address, "pid": os.getpid(), "process": process_start(os.getpid())}
    # A disk that cannot take the file keeps no page from opening.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps(facts))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def page_address(run: Path) -> str:
    """Address at which an open page shows this run; empty if none is open over a folder around it."""
    path = run.absolute().parent.resolve() / run.name  # the run itself does not exist yet
    for file in sorted((cache_directory() / "pages").glob("*.json")):
        try:
            page = json.loads(file.read_bytes())
            if path.is_relative_to(page["root"]) and process_start(page["pid"]) == page["process"] != "":
                return f"{page['address']}/run/{quote(path.relative_to(page['root']).as_posix())}"
        # Gone since it was listed, or written by another version.
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return ""
