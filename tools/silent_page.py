"""Writes docs/reference/silent.md from proof/silent.json: ``python -m tools.silent_page [--check]``.

``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.benchmarks_page import origin, table
from tools.generated import ROOT, deliver

PAGE = Path("docs/reference/silent.md")
RESULT = Path("proof/silent.json")
NAMES = {"trl": "TRL"}
HEAD = """# Silent wrongness

Mistakes of trainers that people reported and that nothing showed: no error, a loss that looks normal. Each is one file
of `proof/silent/` with the smallest example, run through both engines. *right*: the mistake is not made. *refused*: an
error names the cause. *warned*: it is made, and a warning names it. *wrong*: it is made without a word. *not tried*:
it was not run there. What a trainer documents is no mistake. Cells of another trainer are examples in
`proof/silent/peers/` (`python -m proof.silent --peers PYTHON`).

"""


def render() -> str:
    """The whole page."""
    found: dict[str, Any] = json.loads((ROOT / RESULT).read_text(encoding="utf-8"))
    values = found["values"]
    peers = values.get("peers", {})
    columns = [*values["ours"].values(), *(values["cells_of_peers"][peer] for peer in peers)]
    rows = [[f"`{name}`: {row['wrong']}", row["reported"],
             *(cells.get(name, {}).get("verdict", "not tried") for cells in columns)]
            for name, row in values["cases"].items()]
    heads = ["what goes wrong", "reported", "ours, PyTorch", "ours, JAX",
             *(f"{NAMES[peer]} {versions[peer]}" for peer, versions in peers.items())]
    parts = [HEAD, f"{values['kinds']} kinds. {origin(found)}\n\n", "\n".join(table(heads, rows)), "\n"]
    for peer, versions in peers.items():
        tried = values["cells_of_peers"][peer].items()
        cells = [f"- `{name}`, {cell['verdict']}: {cell['evidence']}" for name, cell in tried
                 if cell["verdict"] in ("wrong", "warned")]
        said = ", ".join(f"{name} {version}" for name, version in versions.items())
        parts.append("\n".join([f"\n## {NAMES[peer]}\n", f"{values['peers_tried']['date']}; {said}. Not right:\n",
                                *cells, ""]))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
