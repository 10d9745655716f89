"""Seconds and bytes to score and compare 100,000 predictions.

    python -m benchmarks.evaluation [--allow-load]

Two sets of 50,000 predictions each of the same items are scored, sealed and compared through the functions behind
`workings eval --predictions` and `workings compare`, in one fresh process and the one that it scores in. Exits with 3
without a result when others use more than half a core (``--allow-load`` marks the result), with 1 above the limit.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.other_load import Load
from tools.result_file import write_result

LIMIT_SECONDS = 20.0
ITEMS = 50_000
STEPS = "we add the digits one by one and carry. " * 8


def write_input(folder: Path, share: float, name: str) -> None:
    """Items once, and one file of predictions, about ``share`` of them right."""
    draw = random.Random(name)  # noqa: S311 - the same predictions every time
    with (folder / "items.jsonl").open("w") as items, (folder / f"{name}.jsonl").open("w") as predictions:
        for index in range(ITEMS):
            gold = index + index % 97
            answer = gold + (draw.random() >= share)
            text = f"<reasoning>{index}+{index % 97}={gold}\n{STEPS}</reasoning><answer>{answer}</answer>"
            items.write(json.dumps({"id": f"i{index}", "prompt": f"What is {index}+{index % 97}?",
                                    "expected_answer": gold, "section": f"s{index % 5}"}) + "\n")
            predictions.write(json.dumps({"id": f"i{index}", "completion": text, "finish_reason": "stop"}) + "\n")


def measured(folder: Path) -> dict[str, float]:
    """Score both sets and compare them, in this process."""
    from workings.evaluation.comparison.compare import compare
    from workings.evaluation.run import evaluate_predictions
    from workings.scoring.items import read_items

    started, used = time.perf_counter(), time.process_time()
    items = read_items(folder / "items.jsonl")
    for name in ("a", "b"):
        evaluate_predictions(folder / f"{name}.jsonl", items, folder / name)
    scored = time.perf_counter()
    compare(folder / "a", folder / "b")
    ended = time.perf_counter()
    scorer = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"processor_seconds": round(time.process_time() - used, 2),
            "scorer_processor_seconds": round(scorer.ru_utime + scorer.ru_stime, 2),
            "seconds": round(ended - started, 2), "scoring_seconds": round(scored - started, 2),
            "comparing_seconds": round(ended - scored, 2),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main(arguments: list[str]) -> int:
    """Measure in a fresh process, write the result file, print one line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.measure:
        print(json.dumps(measured(asked.measure)))
        return 0
    load = Load(allow=asked.allow_load)
    with tempfile.TemporaryDirectory() as name:
        for side, share in (("a", 0.60), ("b", 0.61)):
            write_input(Path(name), share, side)
        others = load.check()
        output = subprocess.run([sys.executable, "-m", "benchmarks.evaluation", "--measure", name], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
    values = json.loads(output)
    write_result(packages=["numpy", "scipy"],
                 values={"quotable": not load.passed_over, "cores_used_by_others": round(others, 2),
                         "predictions": 2 * ITEMS, "limit_seconds": LIMIT_SECONDS, **values})
    print(f"{2 * ITEMS} predictions: {values['seconds']} s (limit {LIMIT_SECONDS:g} s), "
          f"{values['peak_bytes'] / 2**20:.0f} MiB")
    return 0 if values["seconds"] <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
