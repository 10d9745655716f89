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
HEAD = """# Silent wrongness

Mistakes of trainers that people reported and that nothing showed: no error, a loss that looks normal. Each is one file
of `proof/silent/` with the smallest example, run through both engines. *right*: the mistake is not made. *refused*: an
error names the cause. *wrong*: it is made without a word. *not tried*: nobody ran it there. What a trainer documents is
no mistake. Every cell of another trainer was run with `proof/silent/peers/`.

"""


def render() -> str:
    """The whole page."""
    found: dict[str, Any] = json.loads((ROOT / RESULT).read_text(encoding="utf-8"))
    values = found["values"]
    peers = [*values["peers"]]
    rows = [[f"`{name}`: {row['wrong']}", row["reported"],
             *(row["workings"][engine]["verdict"] for engine in ("torch", "jax")),
             *(row[peer]["verdict"] if peer in row else "not tried" for peer in peers)]
            for name, row in values["cases"].items()]
    heads = [f"{peer} {versions[peer]}" for peer, versions in values["peers"].items()]
    parts = [HEAD, f"{values['kinds']} kinds. {origin(found)}\n\n",
             "\n".join(table(["what goes wrong", "reported", "ours, PyTorch", "ours, JAX", *heads], rows)), "\n"]
    for peer, versions in values["peers"].items():
        cells = [f"- `{name}`: {row[peer]['evidence']}" for name, row in values["cases"].items()
                 if row.get(peer, {}).get("verdict") == "wrong"]
        said = ", ".join(f"{name} {version}" for name, version in versions.items())
        parts.append("\n".join([f"\n## Wrong in {peer}\n", f"{said}.\n", *cells, ""]))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
