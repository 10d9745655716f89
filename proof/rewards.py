"""What rewards are worth to the quickstart's model, under several seeds: against its start, imitation, random rewards.

    python -m proof.rewards --seeds 17 18 19

Each seed decides data, weights, the order of rows and what is drawn; all arms take as many updates as the recipe says,
the one with random rewards too (`quickstart --rewards --full`). Writes `proof/rewards.json`; exits with 1 where the
aim is missed under a seed.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import load_average, write_result
from workings.publish.export import export_run
from workings.runs.quickstarts.tiny_rewards import quickstart_rewards

HERE = Path(__file__).resolve().parent
AIM = {"start_at_least": 0.30, "start_at_most": 0.75, "points_more_at_least": 0.25, "random_points_more_below": 0.05}
PLACES = ("out", "runs", "report")


def main() -> int:
    """Run every seed and write down what came out, the bad ones too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[17, 18, 19])
    parser.add_argument("--short", action="store_true", help="Random rewards for fewer updates, as by default.")
    asked = parser.parse_args()
    rows, before = [], load_average()
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            found = quickstart_rewards(Path(folder) / str(seed), export=export_run, seed=seed, full=not asked.short)
            values = {name: value for name, value in found.to_json().items() if name not in PLACES}
            rows.append({"seed": seed, "met": _met(values), **values})
    met = [row["seed"] for row in rows if row["met"]]
    write_result(
        HERE / "rewards.json", what="accuracy of the quickstart's model after rewards, more imitation, random rewards",
        command=" ".join(["python -m proof.rewards --seeds", *map(str, asked.seeds), *["--short"] * asked.short]),
        values={"aim": AIM, "seeds": rows, "met": len(met), "of": len(rows)},
        packages=("jax", "jaxlib", "numpy", "tokenizers", "workings"), load_before=before)
    return 0 if len(met) == len(rows) else 1


def _met(found: dict[str, Any]) -> bool:
    start = found["start_accuracy"]
    return bool(AIM["start_at_least"] <= start <= AIM["start_at_most"]
                and found["rewards_accuracy"] >= start + AIM["points_more_at_least"]
                and found["random_accuracy"] < start + AIM["random_points_more_below"])


if __name__ == "__main__":
    sys.exit(main())
