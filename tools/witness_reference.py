"""Writes docs/reference/witnesses.md from the table of witnesses: ``python -m tools.witness_reference [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from tools.generated import deliver
from workings.evidence.verify.coverage_table import KINDS, FieldRow, rows_of

PAGE = Path("docs/reference/witnesses.md")
TITLES = {"run": "A run", "attempts": "Next to the runs", "eval": "An evaluation", "samples": "Samples",
          "pack": "A pack"}
HEAD = """# Witnesses

Each field of each file of a record, and the check of [`workings verify`](record.md) that fails if only this field was
changed. *In part*: compared with bounds, or in some lines. *Said, not checked*: nothing in a record contradicts it;
`verify` counts these fields, `-v` lists them, and `--json` has them under `said`. If a check was not
made, its fields are listed as well; so are files and fields that are not in this table.

`*` represents any name or number. The most specific pattern counts.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind in KINDS:
        parts.append(f"## {TITLES[kind]}\n")
        for file, rows in groupby(rows_of(kind), key=lambda row: row.file):
            parts.append("\n".join([f"### `{file}`\n", "| fields | witness |", "|---|---|", *_lines(rows)]) + "\n")
    return "\n".join(parts)


def _lines(rows: Iterable[FieldRow]) -> list[str]:
    """A line for each check of a file, with the fields that it covers."""
    fields: dict[str, list[str]] = {}
    for row in rows:
        witness = f"`{row.check}`{', in part' if row.partly else ''}" if row.check else f"*said*: {row.reason}"
        fields.setdefault(witness, []).append(f"`{row.field}`" if row.field else "the whole file")
    return [f"| {' '.join(names)} | {witness} |" for witness, names in fields.items()]


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
