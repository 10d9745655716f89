"""A run of which trackers and a webhook are told: what `workings train` and `workings.train` call."""

from collections.abc import Sequence
from pathlib import Path

from workings.config.load import LoadedRecipe
from workings.evaluation.scorecard import percent
from workings.reports.live.told import Told
from workings.reports.tracked import flat
from workings.runs.smoke import Smoke
from workings.runs.train import Callback
from workings.runs.train_and_evaluate import TrainAndEvaluateResult, train_and_evaluate

ALERTED = ("steps", "final_loss", "first_reward", "final_reward", "items", "accuracy", "base_accuracy", "verdict")
"""Keys of the answer that an alert has, too: numbers, and no path of this machine."""


def train_and_tell(loaded: LoadedRecipe, out: Path, told: Told, *, resume: bool = False, smoke: Smoke | None = None,
                   force: bool = False, callbacks: Sequence[Callback] = ()) -> TrainAndEvaluateResult:
    """`train_and_evaluate`; ``told`` hears of every step and of the end, whatever ends it."""
    told.about(out, dict(flat(loaded.resolved())))
    with told:
        result = train_and_evaluate(loaded, out, resume=resume, smoke=smoke, force=force,
                                    callbacks=[*callbacks, told.step])
        # Only process 0 speaks for the run; the others took part.
        if not result.training.process:
            told.ended(result.training.status, _outcome(result),
                       {key: value for key, value in result.as_json().items() if key in ALERTED})
    return result


def _outcome(result: TrainAndEvaluateResult) -> str:
    """How a run ended, in one line."""
    training = result.training
    if training.status == "failed":
        return f"failed: {training.reason}"
    right = f", accuracy {percent(result.scorecard.overall.mean)}" if result.scorecard is not None else ""
    return f"is {training.status} after {training.steps} steps{right}"
