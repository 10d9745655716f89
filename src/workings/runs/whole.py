"""Train, then ask the trained model the recipe's items: one call for `workings train` and the quickstart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import Scorecard
from workings.record.seal import root_digest
from workings.runs.smoke import Smoke
from workings.runs.train import TrainResult, train

EVALUATION = "eval/items"
"""Where the evaluation of a recipe's items stands in its run directory."""


@dataclass(frozen=True, kw_only=True)
class WholeResult:
    """A sealed run and, where the recipe has items and training completed, its scorecard."""

    training: TrainResult
    scorecard: Scorecard | None

    def as_json(self) -> dict[str, Any]:
        """Keys of `train --json`."""
        values = self.training.as_json()
        if self.scorecard is not None:
            overall = self.scorecard.overall
            values |= {"items": overall.n, "accuracy": overall.mean}
        return values

    def sentence(self) -> str:
        """What came out, for people, with what to type next."""
        training = self.training
        loss = "" if training.final_loss is None else f", final loss {training.final_loss:.4f}"
        lines = [f"{training.status} after {training.steps} steps{loss}: {training.run}"]
        if training.status == "failed":
            lines.append(f"reason: {training.reason}; the last checkpoint in the run is the last good state")
        if training.status == "interrupted":
            lines.append("to go on: the same command with --resume")
        if self.scorecard is not None:
            overall = self.scorecard.overall
            lines.append(f"accuracy {overall.mean:.1%} on {overall.n} items")
        lines.append(f"to verify: workings verify {training.run}")
        return "\n".join(lines)


def train_and_evaluate(recipe: str | LoadedRecipe, out: Path, overrides: Sequence[str] = (), *, resume: bool = False,
                       smoke: Smoke | None = None, force: bool = False) -> WholeResult:
    """`train`, then evaluate the state it ended with. Arguments and errors are those of `train`."""
    training = train(recipe, out, overrides, resume=resume, smoke=smoke, force=force)
    prepared = training.prepared
    settings = training.policy.evaluation
    if training.status != "complete" or settings is None:
        return WholeResult(training=training, scorecard=None)
    scorecard = evaluate(
        prepared.engine, training.state, prepared.tokenizer, prepared.template, prepared.sources.items,
        training.run / EVALUATION, settings=settings, made_from=root_digest(training.run))
    return WholeResult(training=training, scorecard=scorecard)
