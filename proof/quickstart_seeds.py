"""The quickstart under several seeds, to see whether its finding hangs on one of them.

    python -m proof.quickstart_seeds --seeds 17 18 19 20 21

Each seed decides data, weights and order anew. Writes `proof/quickstart_seeds.json`.
"""

import argparse
import tempfile
from pathlib import Path

from tools.result_file import load_average, write_result
from workings.runs.quickstarts.quickstart import quickstart

HERE = Path(__file__).resolve().parent
REQUIRED = {"with_steps_at_least": 0.95, "answer_only_at_most": 0.40, "p_value_below": 1e-6}


def main() -> None:
    """Run every seed and write down what came out, the bad ones too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[17, 18, 19, 20, 21])
    seeds = parser.parse_args().seeds
    rows, before = [], load_average()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            found = quickstart(Path(folder) / str(seed), seed=seed).to_json()
            rows.append({"seed": seed, "with_steps": found["traces_accuracy"],
                         "answer_only": found["answer_only_accuracy"], "items": found["items"],
                         "p_value": found["p_value"], "seconds": found["seconds"]})
    met = [row["seed"] for row in rows if row["with_steps"] >= REQUIRED["with_steps_at_least"]
           and row["answer_only"] <= REQUIRED["answer_only_at_most"] and row["p_value"] < REQUIRED["p_value_below"]]
    write_result(
        HERE / "quickstart_seeds.json", what="accuracy of the quickstart's two models under several seeds",
        command="python -m proof.quickstart_seeds --seeds " + " ".join(map(str, seeds)),
        values={"required": REQUIRED, "seeds": rows, "met": len(met), "of": len(rows)},
        packages=("jax", "jaxlib", "numpy", "tokenizers", "workings"), load_before=before)


if __name__ == "__main__":
    main()
