"""Writes docs/what-fits-where.md from the verdicts in two result files: ``python -m tools.what_fits [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.generated import ROOT, deliver
from workings.models.shapes import parameter_count, published_shape
from workings.planning.tensors import PER_LAYER_TABLE
from workings.record.number_text import percent

PAGE = Path("docs/what-fits-where.md")
SOURCE = Path("benchmarks/results/what_fits.json")
PLANS = Path("benchmarks/results/gemma_4_plans.json")
NAMES = {"gemma-2b": "Gemma 1 2B", "gemma-2-2b": "Gemma 2 2B", "gemma-3-270m": "Gemma 3 270M",
         "gemma-3-1b": "Gemma 3 1B", "gemma-3-4b": "Gemma 3 4B", "gemma-4-e2b": "Gemma 4 E2B",
         "gemma-4-e4b": "Gemma 4 E4B", "gemma-4-12b": "Gemma 4 12B", "gemma-4-31b": "Gemma 4 31B",
         "qwen3-1.7b": "Qwen3 1.7B", "qwen3-4b": "Qwen3 4B", "smollm3-3b": "SmolLM3 3B", "olmo-3-7b": "OLMo 3 7B",
         "llama-3.2-1b": "Llama 3.2 1B", "qwen2.5-1.5b": "Qwen2.5 1.5B", "gpt2": "GPT-2",
         "gemma-4-26b-a4b": "Gemma 4 26B-A4B", "qwen3.5-0.8b": "Qwen 3.5 0.8B", "qwen3.5-2b": "Qwen 3.5 2B",
         "qwen3.5-4b": "Qwen 3.5 4B", "qwen3.5-9b": "Qwen 3.5 9B"}
METHODS = {"full": "full, Adafactor", "full-adamw": "full, AdamW, moments in bf16", "lora": "LoRA, rank 16",
           "qlora": "QLoRA, rank 16"}
NO_CELL = "–"
HEAD = """# What fits where

Memory of one device in GiB for a training step with one sequence a device: bfloat16 weights (on a T4 computed in fp32,
for it has no bfloat16 matrix units), layers recomputed in backward, logits of 128 positions at a time, no clipping and
no accumulation. Several devices share the weights (fsdp).

**Bold**: fits. *Italic*: fits with less than a tenth to spare. ~~Struck~~: does not fit. `c`: said by the compiler for
that device, without the device. `t`: by a trace of the PyTorch engine, without it. `e`: estimated by formula.
`–`: not asked, or not trained there. In the {rows} compiled rows the formula was off by
{median} in the middle, by at most {percentile_90} in nine of ten, and by {largest} in the worst ({row});
in {too_low} of them it said too little. It was corrected by these very rows, so it may be off by more in others: ask
`workings plan` before you count on one. Of Gemma 4 and Qwen 3.5 the text part is meant.

The rows are JAX's, and a GPU is planned with the share of its memory that a run with JAX takes; but GPT-2, Gemma 4
26B-A4B and Qwen 3.5 run with PyTorch alone, which takes a GPU's whole memory and no TPU: there a TPU has a dash. Their
rows are traced or not there, because the formula was fitted to JAX: in the {traced} traced rows it is off by
{traced_median} in the middle and by {traced_largest} in the worst. PyTorch refuses to train experts in full with
Adafactor, and altogether on a T4, whose fp32 products would need weights in fp32.
"""


TABLES = """## Gemma 4's per-layer embeddings

Gemma 4 E2B and E4B look every token up in a second table, which gives each layer 256 numbers of its own. With
{e2b:.2f} of {e2b_all:.2f} billion parameters it is half of E2B, with {e4b:.2f} of {e4b_all:.2f} more than a third of
E4B. No method trains it: it has neither gradients nor moments, and in a plan it is a part of its own,
"{part}". On several devices the JAX engine splits it among them. The PyTorch engine keeps it
whole on each, or with `memory.per_layer_embeddings: host` in the host's memory, from where the rows of a batch's tokens
travel to the card.

Of the run's programs each row shows the one that needs the most. GiB of one device; on the host, of all processes. Rows
for a v5e-8 were compiled before prompts were read some at a time; where generation decides, they are upper bounds.

| to see it | program | table | on the host | in all | limit |
|---|---|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    result = json.loads((ROOT / SOURCE).read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = result["values"]["rows"]
    machines = list(dict.fromkeys(row["target"] for row in rows))
    counts = result["values"]["counts"]
    error = result["values"]["error"]
    shares = {"median": percent(error["median"]), "percentile_90": percent(error["percentile_90"], 0),
              "largest": f"{100 * error['largest']:+.0f} %"}
    traced = result["values"]["traced_error"]
    head = HEAD.format(**error | shares, row=" ".join(str(part) for part in error["largest_row"]),
                       traced=traced["rows"], traced_median=percent(traced["median"]),
                       traced_largest=f"{100 * traced['largest']:+.0f} %")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(result["versions"].items()))
    lines = [head, f"{counts['compiled']} rows are compiled, {counts['traced']} traced, "
             f"{counts['estimated']} estimated, with {versions}.",
             f"Again: `{result['command']}`, then `python -m tools.what_fits`.", ""]
    for model, title in NAMES.items():
        limits = {row["target"]: f" ({row['limit_bytes'] / 2**30:.1f})" for row in rows if row["model"] == model}
        lines += [f"## {title}", "", "| method | length | " + " | ".join(
            name + limits.get(name, "") for name in machines) + " |", "|---|---|" + "---|" * len(machines)]
        for method, label in METHODS.items():
            mine = [row for row in rows if row["model"] == model and row["method"] == method]
            for length in sorted({row["length"] for row in mine}):
                cells = {row["target"]: _cell(row) for row in mine if row["length"] == length}
                shown = " | ".join(cells.get(name, NO_CELL) for name in machines)
                lines.append(f"| {label} | {length} | {shown} |")
        lines.append("")
    return "\n".join([*lines, *_tables()])


def _tables() -> list[str]:
    """What per-layer embeddings cost where, from the plans of recipes."""
    plans = json.loads((ROOT / PLANS).read_text(encoding="utf-8"))
    counts = {name: published_shape(f"gemma-4-{name}") for name in ("e2b", "e4b")}
    table = {name: shape.vocab_size * shape.layers * shape.per_layer_width for name, shape in counts.items()}
    head = TABLES.format(part=PER_LAYER_TABLE, **{name: size / 1e9 for name, size in table.items()},
                         **{f"{name}_all": parameter_count(shape) / 1e9 for name, shape in counts.items()})
    rows = [f"| `{each['command']}` | {each['program']} | {each['table_bytes'] / 2**30:.2f} | "
            f"{each['host_table_bytes'] / 2**30:.2f} | {_cell(each)} | {each['limit_bytes'] / 2**30:.1f} |"
            for each in plans["values"].values() if each["table_bytes"] or each["host_table_bytes"]]
    return [*head.splitlines(), *rows, "",
            f"Again: `{plans['command']}`. `c`: said by the compiler, `t`: by a trace of the PyTorch engine.", ""]


def _cell(row: dict[str, Any]) -> str:
    size = f"{row['peak_bytes'] / 2**30:.1f}"
    mark = "*" if row["marginal"] else "**" if row["fits"] else "~~"
    return f"{mark}{size}{mark} {row['source'][0]}"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
