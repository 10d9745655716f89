"""Writes docs/reference/silent.md from proof/silent.json: ``python -m tools.silent_page [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tools.benchmarks_page import origin, table
from tools.generated import ROOT, deliver

PAGE = Path("docs/reference/silent.md")
RESULT = Path("proof/silent.json")
NAMES = {"trl": "TRL", "peft": "PEFT (Trainer)", "llamafactory": "LLaMA-Factory", "axolotl": "axolotl",
         "unsloth": "Unsloth", "tunix": "Tunix", "soup": "Soup"}
LIMITS = {
    "llamafactory": "Without torchvision and torchaudio, which do not load with PyTorch's CPU wheel.",
    "axolotl": "0.21.0 asks for Python 3.12; 0.19.0 is the newest for 3.11. Without what needs a GPU. Its "
               "documentation (`docs/batch_vs_grad.qmd`) promises of accumulation the update of one larger batch, and "
               "says nothing about keys that it does not know.",
    "unsloth": "Templates and masks only, with `UNSLOTH_ALLOW_CPU=1`: its training needs a GPU.",
    "soup": "Tried is `soup train`; another command, `soup data doctor`, is documented to find a missing stop token "
            "(`docs/data.md`). Without generation marks a turn's header is documented to be learned as well; the next "
            "question is not."}
"""What could not be tried of a peer, or how it was installed."""
HEAD = """# Silent wrongness

Mistakes of trainers that people reported and that nothing showed: no error, a loss that looks normal. Each is one file
of `proof/silent/` with the smallest example, run through both engines. *right*: the mistake is not made. *refused*: an
error names the cause. *warned*: it is made, and a warning names it. *wrong*: it is made without a word. *–*:
no example, often because the trainer has no such feature. What a trainer documents is no mistake. Cells of another
trainer are examples of at most 30 lines in `proof/silent/peers/` (`python -m proof.silent --peers NAME=PYTHON`).

"""


def render() -> str:
    """The whole page."""
    found: dict[str, Any] = json.loads((ROOT / RESULT).read_text(encoding="utf-8"))
    values = found["values"]
    peers = values.get("peers", {})
    columns = [*values["ours"].values(), *(values["cells_of_peers"][peer] for peer in peers)]
    rows = [[f"`{name}`: {row['wrong']}", row["reported"],
             *(cells.get(name, {}).get("verdict", "–").replace("not tried", "–") for cells in columns)]
            for name, row in values["cases"].items()]
    heads = ["what goes wrong", "reported", "ours, PyTorch", "ours, JAX",
             *(NAMES[peer] for peer in peers)]
    parts = [HEAD, f"{values['kinds']} kinds. {origin(found)}\n\n", "\n".join(table(heads, rows)), "\n"]
    for peer, tried in peers.items():
        count = Counter(cell["verdict"] for cell in values["cells_of_peers"][peer].values())
        cells = [f"- `{name}`, {cell['verdict']}: {cell['evidence']}"
                 for name, cell in values["cells_of_peers"][peer].items() if cell["verdict"] in ("wrong", "warned")]
        said = ", ".join(f"{name} {version}" for name, version in tried["versions"].items())
        parts.append("\n".join([f"\n## {NAMES[peer]}\n", f"{tried['date']}; {said}. {LIMITS.get(peer, '')}".strip(),
                                f"{count['right']} right, {count['refused']} refused"
                                + (", and:\n" if cells else "."), *cells, ""]))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
