"""The largest step without accumulation that compiles for a v5e-8: Gemma-2B, all weights, rows of 2048 tokens.

    python -m benchmarks.largest_step [--again]

Ours next to a step of Tunix's own Gemma with its sharding active, its decoder remat and its default loss; the step is
kinder than `PeftTrainer`, which does not donate the model. Rows grow by whole rows a chip until the compiler refuses.
Peaks that `benchmarks.v5e` has written by the same commands are taken from its result, unless ``--again``: one
compilation takes half a minute to three minutes of processor time and says the same on every machine. Exits with 1
where ours is not 6 times Tunix's.
"""

import json
import sys
from typing import Any

from benchmarks.v5e import OUT as KNOWN
from benchmarks.v5e import OWN, TUNIX, compile_case
from tools.result_file import ROOT, load_average, write_result

RESULT = ROOT / "benchmarks" / "results" / "largest_step.json"
LENGTH, CHIPS, GOAL, LIMIT_GIB = 2048, 8, 6.0, 15.75
COMMANDS = {"ours": (OWN + " gemma-2b adafactor {rows} 2048", (256, 384, 448, 480)),
            "tunix": (TUNIX + " 18 {rows} 2048", (32, 40, 48, 56, 64, 80, 96))}
"""Rows that are tried, ascending, until one is refused."""


def main(arguments: list[str]) -> int:
    """Compile, write the result file, print a line a compilation."""
    first, known = load_average(), {}
    for path in (KNOWN, RESULT):
        if path.is_file() and "--again" not in arguments:
            found = json.loads(path.read_text(encoding="utf-8"))["values"]
            cases = found["cases"].values() if "cases" in found else found["compiled"]
            known |= {case["command"]: case for case in cases}
    compiled: list[dict[str, Any]] = []
    largest: dict[str, int] = {}
    for name, (template, tried) in COMMANDS.items():
        for rows in tried:
            command = template.format(rows=rows)
            answer = known.get(f"python -m {command}") or compile_case(command)
            fits = answer.get("refused", "no") == "no" and answer.get("peak_gib", LIMIT_GIB + 1) <= LIMIT_GIB
            compiled.append(answer | {"fits": fits, "rows": rows, "whose": name})
            said = answer.get("peak_gib", answer.get("failed", ""))
            print(name, rows, "fits" if fits else "refused", said, flush=True)
            if fits:
                largest[name] = rows * LENGTH
            else:
                break
        else:
            print(f"{name}: {tried[-1]} rows still fit, so its largest step is not known; try more")
            return 1
    ratio = largest["ours"] / largest["tunix"]
    write_result(RESULT, what="Largest step without accumulation that compiles for a TPU v5e-8, in tokens.",
                 command="python -m benchmarks.largest_step", load_before=first,
                 packages=("jax", "jaxlib", "libtpu", "google-tunix", "flax", "optax"),
                 values={"limit_gib": LIMIT_GIB, "goal": GOAL, "tokens": largest, "ratio": round(ratio, 2),
                         "compiled": compiled})
    print(f"{largest['ours']:,} tokens against {largest['tunix']:,}: {ratio:.1f} times")
    print(f"wrote {RESULT.relative_to(ROOT)}")
    return int(ratio < GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
