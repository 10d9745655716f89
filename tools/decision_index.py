"""Writes docs/decisions/index.md from the records' headings: ``python -m tools.decision_index [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import sys
from pathlib import Path

from tools.generated import ROOT, deliver

PAGE = Path("docs/decisions/index.md")

HEAD = """# Decisions

Each record has the decision, the alternatives, and the numbers or reasons.
"""


def render() -> str:
    """The whole page."""
    records = sorted(path for path in (ROOT / PAGE).parent.glob("*.md") if path.name != PAGE.name)
    return "\n".join([HEAD, *(f"- [{_heading(path)}]({path.name})" for path in records), ""])


def _heading(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    if not first.startswith("# "):
        raise SystemExit(f"{path}: the first line must be a heading: `# NUMBER. Title`")
    return first.removeprefix("# ")


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
