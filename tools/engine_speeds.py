"""Copies what `engine: auto` chooses by into the package: ``python -m tools.engine_speeds [--check]``.

From `benchmarks/results/peers.json`, cases that were measured on an idle machine. ``--check`` writes nothing and exits
with 1 if the committed file is not what would be written.
"""

import json
import sys
from pathlib import Path

from tools.generated import ROOT, deliver

SOURCE, PAGE = Path("benchmarks/results/peers.json"), Path("src/workings/engines/cpu_speed.json")


def render() -> str:
    """The file's contents."""
    found = json.loads((ROOT / SOURCE).read_text(encoding="utf-8"))
    rows = [{"case": name, "parameters": case["parameters"],
             "tokens_per_second": {engine: case["contenders"][engine]["tokens_per_second"] for engine in
                                   ("jax", "torch")}}
            for name, case in sorted(found["values"]["cases"].items()) if case["quotable"]]
    return json.dumps({"source": str(SOURCE), "command": found["command"], "date": found["date"], "rows": rows},
                      indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
