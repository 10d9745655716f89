"""Which pages are open on this machine, so that a run can say where it is to be seen.

As with what a run is doing (`workings.record.phase`): a small file in the person's cache, which counts as long as its
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
    """While this is open, a page over ``root`` is known to be at ``address``."""
    path = cache_directory() / "pages" / f"{os.getpid()}.json"
    facts = {"root": str(root.resolve()), "address": address, "pid": os.getpid(),
             "process": process_start(os.getpid())}
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
    """Where an open page shows this run; empty where none is open over a folder around it."""
    place = run.absolute().parent.resolve() / run.name  # of the run itself there is nothing yet
    for path in sorted((cache_directory() / "pages").glob("*.json")):
        try:
            told = json.loads(path.read_bytes())
            if place.is_relative_to(told["root"]) and process_start(told["pid"]) == told["process"] != "":
                return f"{told['address']}/run/{quote(place.relative_to(told['root']).as_posix())}"
        # Gone since it was listed, or written by another version.
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return ""
