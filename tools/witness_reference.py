"""Writes docs/reference/witnesses.md from the table of witnesses: ``python -m tools.witness_reference [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import sys
from pathlib import Path

from tools.generated import deliver
from workings.evidence.verify.field_coverage.table import files_of, kinds, rows_of
from workings.record.coverage import Checked

PAGE = Path("docs/reference/witnesses.md")
TITLES = {"run": "A run", "beside": "Next to the runs", "eval": "An evaluation", "samples": "Samples",
          "notes": "A note", "replay": "A replay", "report": "A report", "pack": "A pack"}
HEAD = """# Witnesses

Each field of each file of a record, and the check of [`workings verify`](record.md) that fails where it alone was
changed. *In part*: held against bounds, or in some lines. *Said, not checked*: nothing in a record contradicts it;
`verify` counts these fields, `-v` lists them, and `--json` has them under `said`. A check that was not made represents
nothing: its fields are then listed as well. A file or a field that is not in this table is listed, too.

`*` represents any name or number. The first row that fits counts.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind in kinds():
        parts.append(f"## {TITLES[kind]}\n")
        for file in files_of(kind):
            rows = [row for row in rows_of(kind) if row.file == file]
            parts.append("\n".join([f"### `{file}`\n", "| field | witness | held against |", "|---|---|---|",
                                    *map(_row, rows)]) + "\n")
    return "\n".join(parts)


def _row(row: Checked) -> str:
    witness = f"`{row.check}`{', in part' if row.partly else ''}" if row.check else "*said, not checked*"
    return f"| {f'`{row.field}`' if row.field else 'the whole file'} | {witness} | {row.against} |"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
