"""Writes docs/reference/record.md from the record's classes and checks: ``python -m tools.record_reference [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import sys
from pathlib import Path

from pydantic import BaseModel

from tools.field_text import meaning, type_text
from tools.generated import deliver
from workings.evidence.verify.registry import CHECKS
from workings.record.manifest import DeviceChecks, RunManifest
from workings.record.metrics import StepMetrics

PAGE = Path("docs/reference/record.md")

HEAD = """# Record reference

What a run leaves, file by file: [the run directory](../format.md). A value that does not exist is
`{"absent": "why"}`; there are no nulls.
"""

CHECKS_HEAD = """## Checks of `workings verify`

An id is never used for something else. A check that could not be made is `not_checked` and never counts as passed; a
record reaches a level when every check of that level and of those below passed.

| id | level | what holds if it passes | a false record that it catches |
|---|---|---|---|"""


def render() -> str:
    """The whole page."""
    checks = [f"| `{check.id}` | {check.level} | {check.holds} | {check.catches} |" for check in CHECKS.values()]
    return "\n".join([HEAD, _table("run_manifest.json", RunManifest),
                      _table("env/device_checks.json", DeviceChecks), _table("train/metrics.jsonl", StepMetrics),
                      "A line a step.\n", CHECKS_HEAD, *checks, ""])


def _table(file: str, model: type[BaseModel]) -> str:
    rows = [f"| `{name}` | {type_text(field.annotation)} | {meaning(field)} |"
            for name, field in model.model_fields.items()]
    return "\n".join([f"## `{file}`", "", "| key | type | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
