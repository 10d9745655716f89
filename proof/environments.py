"""The recipes with an environment learn: their curves, and every episode played again without weights.

    python -m proof.environments [RECIPE …] [--runs FOLDER]

Trains each recipe (of two tiny models and of SmolLM2 with a calculator, each minutes on two idle cores), verifies it at
level 2, and keeps how the run ended, the mean reward, the turns and the share of episodes that a limit ended. With
``--runs`` finished runs of these names are read instead. Writes `proof/environments.json`.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.result_file import earlier, measured, write_result
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.runs.train import train

RECIPES = ("guess-number-cpu", "frozen-lake-cpu", "calculator-cpu")
POINTS = 20
"""Points of a curve; each is a mean over equally many updates."""


def curve(lines: list[dict[str, Any]], name: str) -> list[float]:
    """Means of a number over equal parts of a run."""
    size = max(1, len(lines) // POINTS)
    return [round(fmean(line[name] for line in lines[start:start + size]), 4)
            for start in range(0, len(lines) - size + 1, size)]


def looked_at(run: Path) -> dict[str, Any]:
    """Curves and verification of a run."""
    record, found = RunRecord.open(run), verify(run)
    lines = record.metrics()
    tenth = max(1, len(lines) // 10)
    return {
        **measured(), "updates": len(lines), "status": record.manifest.status,
        "status_reason": record.manifest.status_reason, "level": found.level, "failed_checks": found.failed,
        "episodes": next(check.text for check in found.checks if check.id == "recompute.episodes"),
        "first_reward": round(fmean(line["reward"] for line in lines[:tenth]), 4),
        "last_reward": round(fmean(line["reward"] for line in lines[-tenth:]), 4),
        **{name: curve(lines, name) for name in ("reward", "turns", "truncated")},
        "training_seconds": round(record.manifest.training_seconds)}


def main() -> int:
    """Trains or reads the runs, and writes what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--runs", type=Path)
    given, holds = parser.parse_args(), True
    with tempfile.TemporaryDirectory() as folder:
        for recipe in given.recipes:
            run = given.runs / recipe if given.runs else train(recipe, Path(folder, recipe), []).run
            told = looked_at(run)
            holds &= (told["level"], told["failed_checks"]) == (2, 0) and told["last_reward"] > told["first_reward"]
            write_result(packages=["workings", "torch"], values=earlier() | {recipe: told})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
