"""The folder of a quickstart: its recipes and runs, to resume an interrupted one."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from workings.config.load import LoadedRecipe
from workings.errors import Interrupted, RecordError, RequestError
from workings.evidence.verify import verify
from workings.record import atomic
from workings.record.layout import SEAL, partial_path
from workings.record.reader import RunRecord
from workings.runs.create_or_resume import evaluation_is_missing
from workings.runs.train_and_evaluate import TrainAndEvaluateResult, train_and_evaluate
from workings.ui.verification_cache import VerificationCache


def goes_on(out: Path, recipes: Mapping[str, LoadedRecipe]) -> bool:
    """Whether ``out`` is an interrupted quickstart with these recipes; False if it does not exist.

    Raises `RequestError` for any other folder.
    """
    if not out.exists():
        return False
    files = {name: _recipe_file(out, name) for name in recipes}
    if not all(file.is_file() for file in files.values()) or (out / "report.html").exists():
        raise RequestError(f"--out {out} already exists", "a folder that does not exist yet, or a quickstart that "
                           "was interrupted during training", "another --out")
    for name, file in files.items():
        if file.read_text(encoding="utf-8") != recipes[name].written():
            raise RequestError(f"--out {out} has an interrupted quickstart with another seed or other overrides",
                               "the original seed and overrides, or another folder",
                               f"another --out; the original recipe is {file}")
    return True


def write_recipes(out: Path, recipes: Mapping[str, LoadedRecipe]) -> None:
    """Writes the recipes by which a quickstart is recognized, after its data are complete."""
    (out / "recipes").mkdir(exist_ok=True)
    for name, recipe in recipes.items():
        atomic.write_text(_recipe_file(out, name), recipe.written())


def _recipe_file(out: Path, name: str) -> Path:
    return out / "recipes" / f"{name}.yaml"


def complete_run(out: Path, name: str, recipe: LoadedRecipe, say: Callable[[str], None]
                 ) -> TrainAndEvaluateResult | None:
    """Trains and evaluates a recipe at ``out/runs/NAME``, from its last checkpoint if it was interrupted.

    Returns:
        The result, or None for a run that was already complete.

    Raises:
        Interrupted: it was stopped; the message says how to resume.
        RecordError: it failed.
    """
    path = out / "runs" / name
    begun = path.exists() or partial_path(path).exists()
    if (path / SEAL).is_file() and RunRecord.open(path).status == "complete" and not evaluation_is_missing(path):
        say(f"{path} is complete and is reused")
        return None
    if begun:
        say(f"{path} was interrupted and is resumed")
    # As a file, so that the record of each run names a recipe to repeat.
    write_recipes(out, {name: recipe})
    result = train_and_evaluate(str(_recipe_file(out, name)), path, resume=begun)
    if result.training.status == "interrupted":
        raise Interrupted(f"stopped while {name} was trained; finished parts are in {out}; to resume: the same "
                          f"command with --out {shlex.quote(str(out))}")
    if result.training.status != "complete":
        raise RecordError(f"{name}: {result.training.status}: {result.training.reason}")
    return result


def verify_all(runs: list[Path]) -> None:
    """Raises `RecordError` if a record does not verify."""
    verdicts = VerificationCache.here()  # the page's badges
    for run in runs:
        before = verdicts.stamps(run)
        verification = verify(run)
        verdicts.keep_same(before, verification.to_json())
        if verification.failed:
            raise RecordError(f"{run} does not verify: " + "; ".join(
                f"{check.id}: {check.text}" for check in verification.checks if check.verdict == "failed"))
