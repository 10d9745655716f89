"""What the generators of documentation pages share: writing a page, or comparing it with the committed one."""

import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def deliver(page: Path, text: str, *, check: bool) -> int:
    """Write ``text`` to ``page`` (relative to the repository), or with ``check`` only compare. Returns an exit code."""
    path = ROOT / page
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return 0
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    difference = difflib.unified_diff(found.splitlines(), text.splitlines(), f"{page} (committed)", f"{page} (now)",
                                      lineterm="")
    lines = list(difference)
    if lines:
        print("\n".join([*lines, f"{page} is not current; type: make docs"]), file=sys.stderr)
    return 1 if lines else 0
