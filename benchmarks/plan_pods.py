"""Gemma 2B's recipe for a TPU v5e-8 compiled for larger slices, up to 16 x 16 chips of v5e and v6e: bytes per chip.

    python -m benchmarks.plan_pods

Writes `benchmarks/results/plan_pods.json`. A chip keeps its one row, so that only what is shared gets smaller. Exits
with 1 where bytes per chip do not fall with the number of chips of a kind.
"""

import sys
from typing import Any

from tools.result_file import ROOT, load_average, write_result
from workings.runs.plan import plan

SLICES = (("v5e-4", "v5e-8", "v5e-16", "v5e-256"), ("v6e-4", "v6e-8", "v6e-256"))
RECIPE, WORDS = "gemma-2b-v5e8", ("evaluation={}",)
RESULT = ROOT / "benchmarks" / "results" / "plan_pods.json"


def main() -> int:
    """All slices."""
    before = load_average()
    values: dict[str, Any] = {}
    falling = True
    for kind in SLICES:
        peaks = []
        for name in kind:
            made = plan(RECIPE, name, WORDS, nearest=False)
            state = sum(part.size_bytes for part in made.parts if part.name in ("parameters", "moments"))
            values[name] = {"peak_bytes": made.verdict.peak_bytes, "limit_bytes": made.verdict.limit_bytes,
                            "state_bytes": state, "devices": made.verdict.devices, "source": made.verdict.source,
                            "batch": list(made.batch), "compile_seconds": made.details["compile_seconds"],
                            "parts": {part.name: part.size_bytes for part in made.parts}}
            peaks.append(made.verdict.peak_bytes)
            print(name, made.reasons[0], flush=True)
        falling = falling and peaks == sorted(peaks, reverse=True)
    write_result(RESULT, what="Bytes per chip of Gemma 2B's step on slices of 4 to 256 chips, by the TPU compiler",
                 command="python -m benchmarks.plan_pods", values={"slices": values, "falling": falling},
                 packages=("jax", "jaxlib", "libtpu"), load_before=before)
    return int(not falling)


if __name__ == "__main__":
    sys.exit(main())
