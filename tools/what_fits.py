"""Writes docs/what-fits-where.md from the verdicts in a result file: ``python -m tools.what_fits [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.generated import ROOT, deliver

PAGE = Path("docs/what-fits-where.md")
SOURCE = Path("benchmarks/results/what_fits.json")
NAMES = {"gemma-2b": "Gemma 1 2B", "gemma-2-2b": "Gemma 2 2B", "gemma-3-270m": "Gemma 3 270M",
         "gemma-3-1b": "Gemma 3 1B", "gemma-3-4b": "Gemma 3 4B"}
METHODS = {"full": "full, Adafactor", "full-adamw": "full, AdamW, moments in bf16", "lora": "LoRA, rank 16",
           "qlora": "QLoRA, rank 16"}
HEAD = """# What fits where

Memory of one device in GiB for a training step with one sequence a device: bfloat16 weights (on a T4 computed in fp32,
for it has no bfloat16 matrix units), layers recomputed in backward, logits of 128 positions at a time, no clipping and
no accumulation. Several devices share the weights (fsdp).

**Bold**: fits. *Italic*: fits with less than a tenth to spare. ~~Struck~~: does not fit. `c`: said by the compiler for
that device, without the device. `e`: estimated by formula, which may be off by a fifth in either direction; ask
`workings plan` before you count on such a row. A GPU is planned with the share of its memory that a run with JAX takes.
"""


def render() -> str:
    """The whole page."""
    result = json.loads((ROOT / SOURCE).read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = result["values"]["rows"]
    machines = list(dict.fromkeys(row["target"] for row in rows))
    limits = {row["target"]: row["limit_bytes"] for row in rows}
    counts = result["values"]["counts"]
    lines = [HEAD, f"{counts['compiled']} rows are compiled, {counts['estimated']} estimated, "
             f"with {', '.join(f'{name} {version}' for name, version in sorted(result['versions'].items()))}.",
             f"Again: `{result['command']}`, then `python -m tools.what_fits`.", ""]
    for model, title in NAMES.items():
        lines += [f"## {title}", "", "| method | length | " + " | ".join(
            f"{name} ({limits[name] / 2**30:.1f})" for name in machines) + " |", "|---|---|" + "---|" * len(machines)]
        for method, label in METHODS.items():
            mine = [row for row in rows if row["model"] == model and row["method"] == method]
            for length in dict.fromkeys(row["length"] for row in mine):
                cells = {row["target"]: _cell(row) for row in mine if row["length"] == length}
                lines.append(f"| {label} | {length} | " + " | ".join(cells[name] for name in machines) + " |")
        lines.append("")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    size = f"{row['peak_bytes'] / 2**30:.1f}"
    mark = "*" if row["marginal"] else "**" if row["fits"] else "~~"
    return f"{mark}{size}{mark} {row['source'][0]}"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
