"""`workings train`: trains a recipe, then evaluates the trained and the untrained model on its items."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.distributed.process_group import ProcessGroup
from workings.errors import Interrupted, RecordError, RequestError
from workings.evaluation.cache import evaluate_base
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.predictions import form_free_accuracy
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import Scorecard, build_scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import EvaluationRecord
from workings.record import recovery
from workings.record.layout import PREDICTIONS, RECIPE_EVALUATION, partial_path
from workings.record.number_text import percent
from workings.record.phase import phases
from workings.record.reader import RunRecord
from workings.record.values import leaves
from workings.reports.trackers import RunListeners
from workings.runs.choices import with_choices
from workings.runs.create_or_resume import evaluation_is_missing, has_checkpoint, untrained_model, what_is_left
from workings.runs.prepare import TrainSetup
from workings.runs.train import train, trained_before
from workings.runs.train_result import TrainResult, all_cut_off


def difference_json(comparison: Comparison) -> dict[str, Any]:
    """The difference of a comparison with its interval and verdict, as keys of `--json`; absent values are left out."""
    values = comparison.to_json()
    return {key: values[key] for key in ("delta", "delta_ci_low", "delta_ci_high", "p_value", "verdict")
            if key in values}


@dataclass(frozen=True, kw_only=True)
class BaseResult:
    """The evaluation of the untrained model on the run's items, and its comparison with the run."""

    path: Path | None
    """Folder of the evaluation, next to the runs; None if it was not kept, because the model was a tiny one."""
    comparison: Comparison
    """The run (B) compared with it (A)."""
    note: str = ""
    """The damage of an earlier evaluation that was made again; empty if there was none."""
    form_free: float
    """An upper bound of its accuracy: completions without an answer count as correct if they contain the right one."""

    def to_json(self) -> dict[str, Any]:
        """Its keys of `train --json`."""
        values: dict[str, Any] = {}
        if self.comparison.a is not None:
            if self.path is not None:
                values["base"] = str(self.path)
            values["base_accuracy"] = self.comparison.a.cell.mean
            values["base_accuracy_form_free"] = self.form_free
        return values | difference_json(self.comparison)

    def lines(self, run: Path) -> Iterator[str]:
        """The comparison with the run, and where the answers are, in words."""
        yield f"compared with the untrained model: {self.comparison.finding}"
        yield from self.comparison.warnings
        if self.note:
            yield self.note
        if self.comparison.a is not None and self.form_free > self.comparison.a.cell.mean:
            yield (f"ignoring the answer form, up to {percent(self.form_free)} of the untrained model's answers are "
                   f"correct ({percent(self.comparison.a.cell.mean)} by the recipe's scorer)")
        if self.path is not None:
            yield f"{self.path.name} has the untrained model's answers, which later runs reuse"
            yield f"to see both: workings compare {quote(str(self.path))} {quote(str(run))} --html page.html"


@dataclass(frozen=True, kw_only=True)
class TrainAndEvaluateResult:
    """A sealed run and, if the recipe has items and training completed, its scorecard and the untrained model's."""

    training: TrainResult
    scorecard: Scorecard | None = None
    base: BaseResult | None = None
    base_missing: str = ""
    """Why there is no ``base`` although the recipe wants one."""
    warning: str = ""
    """Warning about the run's answers; empty with a ``base``, whose comparison has it."""

    def to_json(self) -> dict[str, Any]:
        """Keys of `train --json`."""
        values = self.training.to_json()
        if self.scorecard is not None:
            overall = self.scorecard.overall
            values |= {"items": overall.n, "accuracy": overall.mean}
        return values if self.base is None else values | self.base.to_json()

    def sentence(self, resume_command: str = "the same command with --resume") -> str:
        """The result and the next commands, in words; ``resume_command`` resumes an interrupted run."""
        return "\n".join(self._lines(resume_command))

    def _lines(self, resume_command: str) -> Iterator[str]:
        training, measure = self.training, ""
        if training.rewards is not None:
            measure = f", mean reward {training.rewards[0]:.3f} at first, {training.rewards[1]:.3f} at last"
        elif training.final_loss is not None:
            measure = f", final loss {training.final_loss:.4f}"
        yield f"{training.status} after {training.steps} steps{measure}: {training.run}"
        if training.status == "failed":
            state = ("the last checkpoint in the run is the last good state" if has_checkpoint(training.run) else
                     "there is no checkpoint")
            yield f"reason: {training.reason}; {state}"
        if remark := training.learned_nothing or all_cut_off(training.metrics):
            yield remark
        if training.status == "interrupted":
            yield f"to resume: {resume_command}"
        if self.scorecard is not None:
            overall, trained = self.scorecard.overall, len(training.setup.trained_items)
            remark = f", {trained:,} of them in the training data, so it measures memorization" if trained else ""
            yield f"accuracy {percent(overall.mean)} on {overall.n} items{remark}"
        if self.warning:
            yield self.warning
        if self.base is not None:
            yield from self.base.lines(training.run)
        if self.base_missing:
            yield f"the untrained model was not evaluated: {self.base_missing}"
        yield f"to open it: workings ui {quote(str(training.run.parent))}"
        yield f"to verify: workings verify {quote(str(training.run))}"


def train_and_evaluate(recipe: str | LoadedRecipe, out: Path, overrides: Sequence[str] = (), *, resume: bool = False,
                       smoke: int = 0, force: bool = False,
                       listeners: RunListeners | None = None) -> TrainAndEvaluateResult:
    """`train`, then evaluates the final state and, unless the recipe says no, the untrained model.

    With ``resume``, a run that is sealed without one of these evaluations is only evaluated. If the untrained model was
    evaluated, the result has no state: two models do not fit where one was planned for.
    """
    listeners = listeners or RunListeners()
    loaded = load_recipe(recipe, overrides)
    listeners.about(out, {key: str(value) for key, value in leaves(loaded.resolved())})
    loaded = with_choices(loaded)
    with listeners:
        with ProcessGroup.of(loaded.recipe.engine) as group, (phases(out) if group.is_coordinator else nullcontext()):
            # Passed on directly: a variable would keep both models in memory.
            if resume and group.is_coordinator and evaluation_is_missing(out):
                result = _evaluated(trained_before(group, loaded, out, smoke), keep_base=not smoke)
            else:
                result = _evaluated(train(loaded, out, resume=resume, smoke=smoke, force=force, on_step=listeners.step,
                                          group=group), keep_base=not smoke)
        if result.training.process == 0:
            listeners.ended(result.training.status)
    return result


def train_to_the_end(recipe: str | LoadedRecipe, out: Path, say: Callable[[str], None], *, again: str) -> None:
    """Runs `train_and_evaluate`, or continues where an earlier call stopped; does nothing if the run is complete.

    ``say`` prints progress; ``again`` is the command that resumes the run, in words. Raises `Interrupted` if it was
    stopped, and `RecordError` if it failed.
    """
    if partial_path(out).exists():
        recovery.finish_sealing(out)  # a run that was killed during its sealing has nothing to resume
    left = what_is_left(out)
    if left == "nothing":
        say(f"{out} is complete and is reused")
        return
    say(f"{out} was interrupted and is resumed" if left == "resume" else f"{out}: training")
    training = train_and_evaluate(recipe, out, resume=left == "resume").training
    if training.status == "interrupted":
        raise Interrupted(f"stopped while {out.name} was trained; to resume: {again}")
    if training.status != "complete":
        raise RecordError(f"{out}: {training.status}: {training.reason}")


def _evaluated(training: TrainResult, *, keep_base: bool) -> TrainAndEvaluateResult:
    """Evaluates a complete run in process 0; the result of any other run has no scorecards."""
    setup, settings = training.setup, training.setup.evaluation
    if training.process != 0 or training.status != "complete" or settings is None:
        return TrainAndEvaluateResult(training=training)
    # The evaluation names the root digest of the run, which exists once the run is sealed.
    sealed = RunRecord.open(training.run)
    unit = training.run / RECIPE_EVALUATION
    if not unit.exists() and (training.state is None or sealed.kept_step != training.steps):
        # First None, so that the last weights are freed before the kept ones are read.
        training = replace(training, state=None)
        training = replace(training, state=setup.engine.restore(sealed.kept_checkpoint().path))
    if unit.exists():
        scorecard = build_scorecard(EvaluationRecord(unit).results())
    else:
        # The session is passed on directly: a variable would keep both models in memory.
        scorecard = evaluate(
            setup.session(setup.engine, training.state), setup.data.items, unit, settings=settings,
            made_from=sealed.root, facts={"run": sealed.manifest.name, "step": sealed.kept_step})
    if not setup.recipe.evaluation.base:
        return TrainAndEvaluateResult(training=training, scorecard=scorecard, warning=EvaluationRecord(unit).warning)
    # Free the trained weights before making the untrained ones.
    training = replace(training, state=None)
    try:
        base = _base(setup, settings, sealed, keep=keep_base)
    except RequestError as error:  # another process is evaluating the same model
        return TrainAndEvaluateResult(training=training, scorecard=scorecard, base_missing=error.given)
    return TrainAndEvaluateResult(training=training, scorecard=scorecard, base=base)


def _base(setup: TrainSetup, settings: EvaluationSettings, run: RunRecord, *, keep: bool) -> BaseResult:
    """Evaluates the untrained model, or reads its evaluation next to the run. ``keep``: for later runs."""
    with nullcontext(str(run.path.parent)) if keep else TemporaryDirectory() as folder:
        record, note = evaluate_base(
            setup.session(setup.engine, None), setup.data.items, Path(folder),
            make_state=lambda: setup.initial_state(setup.engine, setup.recipe.seed), settings=settings,
            model=untrained_model(run), name=setup.weights.id)
        return BaseResult(path=record.path if keep else None, comparison=compare(record.path, run.path),
                          form_free=form_free_accuracy(record.path / PREDICTIONS), note=note)
