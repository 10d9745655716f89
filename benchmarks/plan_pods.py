"""Gemma 2B's recipe for a TPU v5e-8 compiled for larger slices, up to two of 16 x 16 chips: bytes per chip.

    python -m benchmarks.plan_pods [SLICE ...]

Only the slices that are named are compiled, which takes minutes each, or else all; answers of an earlier call stay.
Writes `benchmarks/results/plan_pods.json`. A chip keeps its one row, so that only what is shared gets smaller. Exits
with 1 where bytes per chip do not fall with the number of chips of a kind.
"""

import sys
from typing import Any

from tools.result_file import ROOT, earlier, load_average, measured, write_result
from workings.runs.plan import plan

SLICES = (("v5e-4", "v5e-8", "v5e-16", "v5e-256", "v5e-256x2"), ("v6e-4", "v6e-8", "v6e-256"))
RECIPE, WORDS = "gemma-2b-v5e8", ("evaluation={}",)
RESULT = ROOT / "benchmarks" / "results" / "plan_pods.json"


def ask(name: str) -> dict[str, Any]:
    """What one plan says."""
    made = plan(RECIPE, name, WORDS, nearest=False)
    print(name, made.reasons[0], flush=True)
    return {"peak_bytes": made.verdict.peak_bytes, "limit_bytes": made.verdict.limit_bytes,
            "state_bytes": sum(part.size_bytes for part in made.parts if part.name in ("parameters", "moments")),
            "devices": made.verdict.devices, "source": made.verdict.source, "batch": list(made.batch),
            "compile_seconds": made.inspection.seconds["compile"],
            "parts": {part.name: part.size_bytes for part in made.parts}, "planned": measured()}


def main(names: list[str]) -> int:
    """Compile, write after each, judge."""
    before, falling = load_average(), True
    for name in names or [name for kind in SLICES for name in kind]:
        found = ask(name)
        # Read again each time: another call may have written meanwhile.
        slices = earlier(RESULT).get("slices", {}) | {
            name: found}
        of_kinds = [[slices[name]["peak_bytes"] for name in kind if name in slices] for kind in SLICES]
        falling = all(peaks == sorted(peaks, reverse=True) for peaks in of_kinds)
        write_result(RESULT, what="Bytes per chip of Gemma 2B's step on 4 to 2 x 256 chips, by the TPU compiler",
                     command="python -m benchmarks.plan_pods", values={
                         "slices": {name: slices[name] for kind in SLICES for name in kind if name in slices},
                         "falling": falling}, packages=("jax", "jaxlib", "libtpu"), load_before=before)
    return int(not falling)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
