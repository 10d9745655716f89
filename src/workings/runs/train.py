"""`train`: prepare, judge, record, train, seal. The order is the product: nothing is trained that was not checked."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.config.algorithms import Dpo
from workings.config.load import LoadedRecipe, load_recipe
from workings.distributed.process_group import ProcessGroup
from workings.distributed.rpc import facts_of
from workings.engines.base import State
from workings.errors import DoesNotFit, RequestError
from workings.evaluation.settings import EvaluationSettings, settings_of
from workings.evidence.run_readme import run_readme
from workings.hardware.memory import byte_text
from workings.models.unproven import unproven_sentence
from workings.models.weights import parameter_count
from workings.planning.preflight import preflight_lines
from workings.record import attempts, jsonl
from workings.record.digest import HashProgress
from workings.record.layout import (
    ANNOUNCED,
    CHECKPOINTS,
    CONFIG,
    DATA_DIGESTS,
    DOCTOR,
    EVENTS,
    MEASURED,
    METRICS,
    README,
    RECIPE_EVALUATION,
    SEAL,
    refuse_unit_name,
)
from workings.record.manifest import DRAWN_FROM, LEFT_ASIDE, NOT_PROVEN
from workings.record.memory_use import memory_sentence
from workings.record.storage import storage
from workings.record.waiting import waiting
from workings.runs.code_version import code_version
from workings.runs.datasets import find_data
from workings.runs.describe import (
    build_manifest,
    data_digests,
    reproduce_command,
    write_request,
)
from workings.runs.doctor import Examination, doctor
from workings.runs.find_teacher import refuse_processes
from workings.runs.guard import MemoryWatch, refusal
from workings.runs.held_out import BEFORE, HeldOutChange, held_out_change, trained_on
from workings.runs.preference_change import PreferenceChange, preference_change
from workings.runs.prepare import TrainSetup, prepare
from workings.runs.resolve import fetch_tensors
from workings.runs.select_engine import with_engine
from workings.runs.smoke import Smoke
from workings.runs.start import (
    Start,
    begin_again,
    begin_new,
    progress_facts,
    same_request,
)
from workings.scoring.items import Item, items_digest
from workings.scoring.process import ScoringProcess
from workings.scoring.scorers import scorer_version
from workings.scoring.settings import ScoringSettings
from workings.training.display import Display
from workings.training.loop import LoopParts, NoObserver, Observer, Outcome, Progress
from workings.training.loop import train as run_loop
from workings.training.machine_log import MachineLog
from workings.training.observer import HeldOutObserver, LoggedSample
from workings.training.stopping import StopRequest
from workings.training.tensorboard import TensorBoardFiles
from workings.training.watched import WatchedItems

Callback = Callable[[Mapping[str, Any]], bool | None]
"""Called with a step's metrics when the step is done; `False` asks for a stop."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A sealed run."""

    status: str
    reason: str
    steps: int
    supervised_tokens: int
    final_loss: float | None
    rewards: tuple[float, float] | None
    """Mean rewards of the first and the last rollout; None where traces are imitated."""
    run: Path
    setup: TrainSetup
    settings: "LoopSettings"
    state: State
    process: int = 0
    """Of the processes that ran together, this one; only 0 has the run and its state."""

    def as_json(self) -> dict[str, Any]:
        """Keys of `train --json`; a loss that does not exist is left out."""
        values: dict[str, Any] = {"status": self.status, "steps": self.steps, "run": str(self.run)}
        if self.rewards is not None:
            values |= {"first_reward": self.rewards[0], "final_reward": self.rewards[1]}
        return values if self.final_loss is None else values | {"final_loss": self.final_loss}


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """When to save and when to look. A recipe with a key that has no meaning here was refused when it was loaded."""

    name: str
    save_every: int
    keep_last: int
    look_every: int = 0
    questions: tuple[Item, ...] = ()
    """Questions whose answers are shown each time."""
    max_new_tokens: int = 0
    evaluation: EvaluationSettings | None = None
    """How the items are asked after training; None without items."""
    base: bool = False
    """Whether the untrained model is asked them too."""
    watch: int = 0
    """Items that are answered and scored at each look."""

    @classmethod
    def of(cls, setup: TrainSetup) -> "LoopSettings":
        """What the recipe's sections `checkpoint` and `evaluation` mean for this run."""
        recipe, items = setup.recipe, setup.data.items
        settings = cls(name=recipe.name, save_every=recipe.checkpoint.every_steps,
                       keep_last=recipe.checkpoint.keep_last)
        if items or setup.held_out:
            settings = replace(settings, look_every=recipe.evaluation.every_steps)
        if items:
            asking = settings_of(recipe)
            scorer_version(asking.scorer)  # one whose library is missing is refused now, and not after training
            settings = replace(settings, questions=tuple(items[:recipe.evaluation.samples]),
                               max_new_tokens=asking.max_new_tokens, evaluation=asking, base=recipe.evaluation.base)
            if recipe.draws:
                settings = replace(settings, watch=min(recipe.evaluation.watch, len(items)))
        return settings


def train(recipe: str | LoadedRecipe, out: Path, overrides: Sequence[str] = (), *, resume: bool = False,
          smoke: Smoke | None = None, force: bool = False) -> TrainResult:
    """Train what a recipe asks for and seal the record.

    Args:
        recipe: a file, a shipped recipe's name, or one that is loaded already.
        out: the run directory; it must not exist (with ``resume``: a run that did not finish).
        overrides: ``key=value`` words.
        resume: go on where a killed, interrupted or failed run stopped.
        smoke: make the model tiny and the run short.
        force: run although the plan says that it does not fit; the record says so.

    Raises:
        RequestError: what was asked for is wrong; nothing was changed.
        DoesNotFit: the compiled step needs more memory than there is; the message names the nearest plan that fits.
    """
    loaded = with_engine(load_recipe(recipe, overrides))
    with ProcessGroup.of(loaded.recipe.engine, loaded.recipe.device) as processes:
        return train_in(processes, loaded, out, resume=resume, smoke=smoke, force=force)


def train_in(processes: ProcessGroup, loaded: LoadedRecipe, out: Path, *, resume: bool, smoke: Smoke | None,
             force: bool, callbacks: Sequence[Callback] = ()) -> TrainResult:
    """`train` by processes that have met; what follows may ask the state that it ends with.

    Process 0 alone sees the run directory. The others return when process 0 has left the group.
    """
    if processes.is_coordinator:
        _check_out(out, resume)
    if processes.count > 1:
        refuse_processes(loaded.recipe)
    # First, because tokenizer and batch change, from which all else is prepared.
    if smoke is not None:
        loaded = smoke.shrink(loaded)
    data = find_data(loaded)
    setup = prepare(loaded, smoke.cut(data) if smoke is not None else data)
    # A plan that does not fit gets past the refusal below by --force alone, so this is what `forced` says.
    facts = {**setup.learned.facts(), "smoke": smoke is not None, "forced": not setup.verdict.fits,
             "predicted_peak_bytes": setup.verdict.peak_bytes,
             "processes": processes.count,
             **({} if setup.shape.proven else {NOT_PROVEN: unproven_sentence(setup.shape.family)}),
             **({DRAWN_FROM: sources} if (sources := setup.data.drawn_from) else {})}
    settings = LoopSettings.of(setup)
    # The search for a way out compiles up to four other candidates, so one process makes it for all.
    if not setup.verdict.fits and (not force or setup.inspection.refused):
        raise refusal(setup) if processes.is_coordinator else DoesNotFit("; ".join(setup.verdict.reasons))
    # Only now: a run that does not fit has downloaded descriptions, and none of the gigabytes of tensors.
    fetch_tensors(setup.weights)
    if setup.left_aside is not None:
        facts |= {LEFT_ASIDE: setup.left_aside.as_json()}
    # A process with other rows or another version would not fail: it would train on, silently wrong.
    must_agree = {"recipe": setup.config_digest, "data": data_digests(setup),
                  "workings": code_version().version}
    checks = processes.agree(facts_of(setup.engine) | must_agree, dict(setup.device_check))
    # From here on a signal is a request. Before, it ends the process at once, and there is nothing yet to save.
    with StopRequest() as stop:
        if not processes.is_coordinator:
            ended = processes.work(setup.engine, setup.weights.directory, lambda: stop.requested)
            return _worked(ended, processes, setup, settings, out)
        setup = replace(setup, engine=processes.coordinate(setup.engine), device_check=_all_checks(checks))
        # The engine has run a kernel already and compared it with NumPy, so the doctor runs none.
        with waiting("looking at this machine"):
            examined = doctor(setup.loaded, out=out.parent, kernels=False)
        start = _start(setup, settings, out, resume, examined)
        # Between compiling and the first weight: what is resident now belongs to compiler and libraries.
        watch = MemoryWatch()
        planned = watch.before(setup)
        start.writer.write_json(MEASURED, planned)
        try:
            told = _Listeners(callbacks, stop, processes)
            outcome = _take_steps(start, setup, settings, out, told, examined, planned)
            result = _seal(start, setup, settings, outcome, out, facts, watch)
        except RequestError:
            # Broken weights, a reward that cannot be loaded: mended, they are asked for under the same name.
            if not start.resumed:
                start.writer.discard()
            raise
        finally:
            start.writer.close()  # harmless after sealing; after an error the folder stays and can be resumed
    # Sent with the last call, when the group is left: workers have no record to read it from.
    processes.outcome = {"status": result.status, "reason": result.reason, "steps": result.steps,
                         "supervised_tokens": result.supervised_tokens, "final_loss": result.final_loss,
                         "rewards": result.rewards}
    return result


def trained_before(loaded: LoadedRecipe, out: Path, smoke: Smoke | None) -> TrainResult:
    """A sealed run whose evaluation was cut off, with the state that it ended with where that is still to be asked.

    Nothing is written.

    Raises:
        RequestError: something else is asked for than then.
        RecordError: its last checkpoint is damaged.
    """
    if smoke is not None:
        loaded = smoke.shrink(loaded)
    data = find_data(loaded)
    setup = prepare(loaded, smoke.cut(data) if smoke is not None else data)
    settings = LoopSettings.of(setup)
    fetch_tensors(setup.weights)
    # Prepared anew, because an engine and its compiled programs are in no record; held against the record here.
    run = same_request(out, {CONFIG: setup.config, DATA_DIGESTS: data_digests(setup)})
    manifest, metrics = run.manifest, run.metrics()
    last = run.checkpoints.load(run.checkpoints.folders()[-1])
    state = None if (out / RECIPE_EVALUATION).exists() else setup.engine.restore(last.path)
    return TrainResult(status=manifest.status, reason=manifest.status_reason, steps=last.step,
                       supervised_tokens=manifest.supervised_tokens, final_loss=metrics[-1]["loss"],
                       rewards=rewards_of(metrics), run=out, setup=setup, settings=settings, state=state)


def _all_checks(checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The device checks of all processes as one: every device by its name, the worst of the differences."""
    # The checks come by index, so the first one is that of process 0, which writes the record.
    own = checks[0]
    if len(checks) == 1:
        return {**own, "processes": 1}
    devices = [f"{name} of process {index}" for index, check in enumerate(checks) for name in check["devices"]]
    worst = max(check["max_difference_to_numpy"] for check in checks)
    return {**own, "processes": len(checks), "devices": devices, "max_difference_to_numpy": worst}


def rewards_of(metrics: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Mean rewards of the first and the last rollout; None where there is none."""
    # Of several updates from one rollout only the first one's line tells of it.
    rewards = [line["reward"] for line in metrics if "reward" in line]
    return (rewards[0], rewards[-1]) if rewards else None


def _worked(ended: Mapping[str, Any], processes: ProcessGroup, setup: TrainSetup, settings: LoopSettings,
            out: Path) -> TrainResult:
    """The result in a process that took part and wrote nothing, as process 0 told it."""
    return TrainResult(status=ended["status"], reason=ended["reason"], steps=ended["steps"],
                       supervised_tokens=ended["supervised_tokens"], final_loss=ended["final_loss"],
                       rewards=tuple(ended["rewards"]) if ended["rewards"] else None, run=out,
                       setup=setup, settings=settings, state=None, process=processes.index)


def _check_out(out: Path, resume: bool) -> None:
    """Refuse a run directory that cannot be made before a minute is spent on preparing; `RunWriter` checks it again."""
    if not resume:
        refuse_unit_name(out)
    if out.exists() and not resume:
        # A run that failed before its first checkpoint has nothing to go on from.
        way_on = "" if (out / SEAL).is_file() and not any((out / CHECKPOINTS).glob("*")) else (
            ", or add --resume if that run did not finish")
        raise RequestError(f"--out {out}, which exists", "a directory that does not exist yet",
                           f"choose another --out{way_on}")
    # `lexists`, because a link that leads nowhere is in the way, too; the nearest name that is there decides.
    place = next(parent for parent in out.absolute().parents if os.path.lexists(parent))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise RequestError(f"--out {out}, and {place} is not a folder that can be written to",
                           "a place for the run directory", "choose another --out")


def _start(setup: TrainSetup, settings: LoopSettings, out: Path, resume: bool, examined: Examination) -> Start:
    """Open the run directory, list the attempt, write down what is asked for."""
    with storage(out.parent, "make"):
        out.parent.mkdir(parents=True, exist_ok=True)
    # Before the run's own folder: an attempt that dies at once is listed as well.
    attempt = attempts.append(out.parent, {"run": out.name, "recipe": setup.recipe.name,
                                           "config_digest": setup.config_digest, "resume": resume})
    start = begin_again(out, {CONFIG: setup.config, DATA_DIGESTS: data_digests(setup)},
                        setup.device.mesh, attempt) if resume else begin_new(out, attempt)
    # A resumed run writes it anew: devices and free memory need not be those of the attempt before.
    write_request(start.writer, setup)
    start.writer.write_json(DOCTOR, examined.as_json())
    if settings.evaluation is not None and not start.resumed:
        # Sealed with the first events: which items count is said before it is known how they are answered.
        start.writer.event(ANNOUNCED, evaluation=RECIPE_EVALUATION, decoding=settings.evaluation.decoding(),
                           items={"count": len(setup.data.items), "digest": items_digest(setup.data.items)})
    return start


@dataclass(frozen=True)
class _Listeners:
    """What callbacks are told, and whether a signal, one of them or another process asks for a stop."""

    callbacks: Sequence[Callback]
    stop: StopRequest
    processes: ProcessGroup

    def __call__(self, line: Mapping[str, Any]) -> None:
        for callback in self.callbacks:
            # A copy: the line itself goes into the record.
            # `is`: a callback that returns nothing asks for nothing.
            if callback(dict(line)) is False:
                self.stop.requested = True

    def stop_requested(self) -> bool:
        return self.processes.stop_requested(self.stop.requested)


def _take_steps(start: Start, setup: TrainSetup, settings: LoopSettings, out: Path,
                told: "_Listeners", examined: Examination, planned: Mapping[str, Any]) -> Outcome:
    writer = start.writer
    writer.checkpoints.keep_last = settings.keep_last
    with Display(settings.name, setup.schedule.steps, start.progress, writer.log, planned) as display:
        _introduce(display.say, start, setup, examined, out)
        curves = TensorBoardFiles(out, display.say, after_step=start.progress.step)
        curves.recipe(setup.loaded.written(), setup.config)
        at = start.progress

        def write_metric(line: dict[str, Any]) -> None:
            writer.metric(line)  # first: the record counts
            curves.line(line)

        def show(line: dict[str, Any], progress: Progress) -> None:
            nonlocal at
            at = progress
            display.show(line, progress)
            told(line)

        def sampled(sample: LoggedSample) -> None:
            display.sample(sample.line)
            curves.sample(sample)

        try:
            # The first two may start a process that scores; neither outlives the training.
            with (setup.learned.experience(setup.engine, writer) as experience, _watched(setup, settings) as watched,
                  MachineLog(writer.machine, lambda: at.step, display.say)):
                parts = LoopParts(
                    engine=setup.engine, experience=experience, schedule=setup.schedule,
                    observer=_observer(setup, settings, sampled, watched), write_metric=write_metric,
                    save=lambda state, at: _save(start, setup, state, at),
                    checkpoint_due=lambda step: step % settings.save_every == 0, stop_requested=told.stop_requested,
                    show=show)
                # The first state is made inside of the loop: memory may run out there, too, and that end is recorded.
                outcome = run_loop(parts, lambda: _first_state(start, setup, watched), start.progress)
        finally:
            curves.close()
        if (change := _held_out_change(start, setup, settings)) is not None:
            display.say(f"held out   {change.sentence}")
        if (preferred := _preference_change(start, setup)) is not None:
            display.say(f"pairs      {preferred.sentence}")
        return outcome


def _introduce(say: Callable[[str], None], start: Start, setup: TrainSetup, examined: Examination, out: Path) -> None:
    """What is about to be trained, and what a person should know of it, a line each."""
    for line in preflight_lines(
            recipe=setup.recipe, device=setup.device, shape=setup.shape,
            parameters=parameter_count(setup.shape),
            model_id=setup.weights.id, revision=setup.weights.revision, data=setup.learned.sentence(),
            data_digests=setup.learned.digests, memory=setup.verdict.reasons[0], out=out):
        say(line)
    if both := trained_on(setup.data.items, setup.learned):
        say(f"leak       {len(both):,} of {len(setup.data.items):,} held-out items are trained on as well, such as "
            f"{both[0]}: they measure nothing, and `workings verify` will say so; try: other evaluation.items")
    if (left := setup.left_aside) is not None:
        say(f"left aside {', '.join(left.parts) or 'nothing'} of {left.architecture} ({left.tensors} "
            f"tensors, {byte_text(left.size)}): text is trained; `workings export` puts them back")
    for finding in examined.findings:
        if finding.judgement == "problem":
            say(f"doctor     {finding.what}; {finding.why}; try: {finding.mend}")
    for note in setup.loaded.renamed:
        say(f"renamed    {note}")
    for note in setup.loaded.chosen:
        say(f"chosen     {note}")
    if start.resumed:
        say(f"resume     after step {start.progress.step}")


def _first_state(start: Start, setup: TrainSetup, watched: WatchedItems | None) -> State:
    if start.checkpoint is not None:
        return setup.engine.restore(start.checkpoint.path)
    with waiting("reading the weights"):
        state = setup.initial_state(setup.engine, setup.recipe.seed)
    if watched is not None:
        # An event, because it belongs to no step; a run that goes on keeps its events.
        start.writer.event(BEFORE, **watched.look(state))
    return state


@contextmanager
def _watched(setup: TrainSetup, settings: LoopSettings) -> Iterator[WatchedItems | None]:
    """The items that are watched, as long as the process that scores them lives."""
    if not settings.watch or settings.evaluation is None:
        yield None
        return
    with ScoringProcess(ScoringSettings()) as judge:
        yield WatchedItems(
            engine=setup.engine, items=setup.data.items[:settings.watch], tokenizer=setup.tokenizer,
            template=setup.template, max_new_tokens=settings.max_new_tokens,
            batch_size=settings.evaluation.batch_size, judge=judge)


def _held_out_change(start: Start, setup: TrainSetup, settings: LoopSettings) -> HeldOutChange | None:
    """From the files: the first lines of a resumed run were written by another process."""
    if not settings.watch:
        return None
    return held_out_change(setup.data.items[:settings.watch], start.writer.metrics(),
                           jsonl.read(start.writer.path(EVENTS))[0])


def _preference_change(start: Start, setup: TrainSetup) -> PreferenceChange | None:
    """From the file, as `_held_out_change`."""
    algorithm = setup.recipe.algorithm
    return preference_change(start.writer.metrics(), algorithm.beta) if isinstance(algorithm, Dpo) else None


def _observer(setup: TrainSetup, settings: LoopSettings, sampled: Callable[[LoggedSample], None],
              watched: WatchedItems | None) -> Observer:
    if not setup.held_out and not settings.questions and watched is None:
        return NoObserver()
    return HeldOutObserver(
        engine=setup.engine, batches=setup.held_out, questions=settings.questions, tokenizer=setup.tokenizer,
        template=setup.template, max_new_tokens=settings.max_new_tokens, every_steps=settings.look_every,
        last_step=setup.schedule.steps, tell=sampled, watched=watched)


def _save(start: Start, setup: TrainSetup, state: State, at: Progress) -> None:
    start.writer.checkpoints.save(at.step, lambda directory: setup.engine.save(state, directory),
                                  progress_facts(at))


def _seal(start: Start, setup: TrainSetup, settings: LoopSettings, outcome: Outcome, out: Path, facts: dict[str, Any],
          watch: MemoryWatch) -> TrainResult:
    memory = setup.engine.memory()  # once: a CPU's peak still grows while this is written down
    writer, measured = start.writer, watch.facts(setup, memory, outcome.out_of_memory)
    if outcome.out_of_memory:
        writer.event("out_of_memory", **measured)
        outcome = replace(outcome, reason=f"{outcome.reason}: {memory_sentence(measured)}; {outcome.out_of_memory}")
    writer.write_json(MEASURED, measured)
    # Read back from the file: the first lines of a resumed run were written by another process.
    metrics = jsonl.read(writer.path(METRICS))[0]
    if (change := _held_out_change(start, setup, settings)) is not None:
        facts = facts | {"held_out": change.facts()}
    if (preferred := _preference_change(start, setup)) is not None:
        facts = facts | {"preferences": preferred.facts()}
        if preferred.chosen_fell:
            writer.event("chosen_completions_fell", **preferred.facts())
    manifest = build_manifest(setup, outcome, metrics, out=out, started_at=start.first_started_at,
                              resumes=start.resumes, resumed_from=writer.resumed_from, memory=memory, facts=facts)
    if outcome.status == "failed":
        writer.event("failed", reason=outcome.reason)
    # Before sealing, which lists the files that are there and refuses a run without this one.
    writer.write_text(README, run_readme(
        manifest, data=setup.learned.sentence(), command=reproduce_command(writer, manifest),
        memory=memory_sentence(measured), learned=rewards_of(metrics) if preferred is None else preferred.sentence))
    # Progress goes to standard error: the run's own log is among the files that are sealed.
    run = writer.seal(outcome.status, manifest, HashProgress(lambda text: sys.stderr.write(f"sealing: {text}\n")))
    return TrainResult(status=outcome.status, reason=outcome.reason, steps=outcome.progress.step,
                       supervised_tokens=outcome.progress.supervised_tokens,
                       final_loss=metrics[-1]["loss"] if metrics else None, rewards=rewards_of(metrics), run=run,
                       setup=setup, settings=settings, state=outcome.state)
