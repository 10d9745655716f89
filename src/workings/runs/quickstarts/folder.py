"""Parts that all quickstarts share: the folder with recipes and runs, which is resumed, and the end of the answer."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import Comparison
from workings.evidence.verify import verify
from workings.record import atomic
from workings.reports.html import write_report
from workings.runs.train_and_evaluate import train_to_the_end
from workings.ui.verification_cache import VerificationCache


def begin(out: Path, recipes: Mapping[str, LoadedRecipe], make_data: Callable[[Path], None]) -> None:
    """Makes the folder of a quickstart with its data, or checks that an existing one is the same, interrupted."""
    if not out.exists():
        make_data(out / "data")
        # After the data are complete, because a quickstart is recognized by its recipes.
        write_recipes(out, recipes)
        return
    files = {name: _recipe_file(out, name) for name in recipes}
    if not all(file.is_file() for file in files.values()) or (out / "report.html").exists():
        raise RequestError(f"--out {out} already exists", "a folder that does not exist yet, or a quickstart that "
                           "was interrupted during training", "another --out")
    for name, file in files.items():
        if file.read_text(encoding="utf-8") != recipes[name].written():
            raise RequestError(f"--out {out} has an interrupted quickstart with another seed or other overrides",
                               "the original seed and overrides, or another folder",
                               f"another --out; the original recipe is {file}")


def write_recipes(out: Path, recipes: Mapping[str, LoadedRecipe]) -> None:
    """Writes the recipes by which a quickstart is recognized."""
    (out / "recipes").mkdir(exist_ok=True)
    for name, recipe in recipes.items():
        atomic.write_text(_recipe_file(out, name), recipe.written())


def _recipe_file(out: Path, name: str) -> Path:
    return out / "recipes" / f"{name}.yaml"


def complete_run(out: Path, name: str, recipe: LoadedRecipe, say: Callable[[str], None]) -> None:
    """Trains and evaluates a recipe at ``out/runs/NAME``, as `train_to_the_end`."""
    write_recipes(out, {name: recipe})
    train_to_the_end(str(_recipe_file(out, name)), out / "runs" / name, say,
                     again=f"the same command with --out {shlex.quote(str(out))}")


def report(out: Path, compared: Mapping[str, Any], shown: Sequence[Path], verdict: Comparison,
           runs: Sequence[Path]) -> None:
    """Writes the comparisons and the page of what is ``shown``. Raises `RecordError` if a run does not verify."""
    atomic.write_json(out / "compare.json", compared)
    write_report(out / "report.html", list(shown), verdict)
    verdicts = VerificationCache.here()  # the page's badges
    for run in runs:
        before = verdicts.stamp(run)
        verification = verify(run)
        verdicts.keep(run, before, verification.to_json())
        if verification.failed:
            raise RecordError(f"{run} does not verify: " + "; ".join(
                f"{check.id}: {check.text}" for check in verification.checks if check.verdict == "failed"))


@dataclass(frozen=True)
class QuickstartAnswer:
    """The result of a quickstart."""

    values: dict[str, Any]
    """Keys of `quickstart --json`."""
    text: str

    @classmethod
    def of(cls, values: dict[str, Any], lines: Sequence[str], out: Path, started: float,
           *commands: str) -> "QuickstartAnswer":
        """The answer with the result in ``lines``, the report, and commands to try next."""
        seconds = time.perf_counter() - started
        return cls(values | {"seconds": round(seconds, 1), "report": str(out / "report.html")}, "\n".join([
            "", *lines, f"All runs are sealed and verified. Report: {out / 'report.html'}  ({seconds:.0f} s)", "",
            "Try next:", *(f"  workings {command}" for command in commands)]))
