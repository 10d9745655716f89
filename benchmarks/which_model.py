"""Four Gemmas planned for the two machines that Kaggle lends: does it fit, and how long does it take.

    python -m benchmarks.which_model

Full fine-tuning with Adafactor and bfloat16 weights. TPU v5e-8: the shipped recipes (2048 tokens a chip), as
`benchmarks.plan_v5e8` compiled them. Two T4: the recipe gemma-2b-t4x2 (512 tokens a card, computed in fp32) with each
model, compiled by XLA for CUDA. Seconds follow formulas with a stated efficiency, for the same million tokens. Writes
`benchmarks/results/which_model.json`, which a decision quotes.
"""

import json
import sys
from typing import Any

from tools.result_file import ROOT, load_average, write_result
from workings.runs.plan import plan

MODELS = {"gemma-2b": ("google/gemma-2b", "gemma-2b-v5e8"), "gemma-1.1-2b": ("google/gemma-1.1-2b-it", "gemma-2b-v5e8"),
          "gemma-2-2b": ("google/gemma-2-2b", "gemma-2-2b-v5e8"),
          "gemma-3-1b": ("google/gemma-3-1b-pt", "gemma-3-1b-v5e8")}
"""Model -> Hub id, shipped recipe for a v5e-8 (Gemma 1 and 1.1 have the same shape)."""
COMPILED = ROOT / "benchmarks" / "results" / "plan_v5e8.json"
RESULT = ROOT / "benchmarks" / "results" / "which_model.json"


def facts(answer: dict[str, Any]) -> dict[str, Any]:
    """What decides, from a plan's JSON."""
    tokens = answer["batch"][0] * answer["batch"][1] * answer["batch"][2]
    seconds = answer["step_seconds_estimate"]
    return {"fits": answer["fits"], "marginal": answer["marginal"], "peak_bytes": answer["peak_bytes"],
            "limit_bytes": answer["limit_bytes"], "source": answer["source"], "tokens_a_step": tokens,
            "step_seconds": seconds, "seconds_a_million_tokens": round(1e6 * seconds / tokens, 1)}


def main() -> int:
    """All plans; 1 where one of them is no compiler's answer."""
    before = load_average()
    there = json.loads(COMPILED.read_text(encoding="utf-8"))["values"]
    values: dict[str, Any] = {}
    for name, (hub_id, recipe) in MODELS.items():
        cards = plan("gemma-2b-t4x2", "t4x2", ["evaluation={}", f"model.id={hub_id}"], nearest=False).to_json()
        values[name] = {"hub_id": hub_id, "v5e-8": facts(there[recipe]), "t4x2": facts(cards)}
        print(name, json.dumps(values[name]), flush=True)
    write_result(RESULT, what="Four Gemmas planned for a TPU v5e-8 and for two T4", values=values,
                 command="python -m benchmarks.which_model", packages=("jax", "jaxlib", "jax-cuda12-plugin"),
                 load_before=before)
    return int(any(each[machine]["source"] != "compiled" for each in values.values() for machine in ("v5e-8", "t4x2")))


if __name__ == "__main__":
    sys.exit(main())
