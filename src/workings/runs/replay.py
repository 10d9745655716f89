"""`replay`: take some of a sealed run's steps again, and say whether the same comes out."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workings.config.algorithms import Distill
from workings.data.batches import Position
from workings.engines.registry import find_engine
from workings.errors import RequestError
from workings.evidence.replay import steps as replay_steps
from workings.evidence.replay.conditions import (
    code_text,
    conditions,
    device_text,
    differing,
    engine_text,
    of_run,
    on_cpu,
    platform,
)
from workings.evidence.replay.drawn import with_another_advantage, with_another_reward, with_another_teacher
from workings.evidence.replay.judge import SCHEMA, Facts, judge, sentence
from workings.evidence.replay.outcomes import RecordedEvaluation, compare_weights, generate_again
from workings.evidence.replay.preferred import PairSource, with_a_pair_swapped, with_another_reference
from workings.evidence.replay.steps import InitialState, ReplayPlan, Source
from workings.evidence.replay.tolerance import BITWISE, Tolerance, number_format, tolerance_for
from workings.evidence.replay.unit import unit_path, write_unit
from workings.record import environment, jsonl
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import ENVIRONMENT, EVALUATION_CONFIG, PREDICTIONS, SAMPLED
from workings.record.reader import Run
from workings.record.values import Absent
from workings.runs.code_version import code_version
from workings.runs.open_model import ReopenedRun, ReplayInputs, reopen_run
from workings.runs.teacher import Teacher
from workings.samples.unit import SampleUnit
from workings.training.schedule import Schedule

STEPS, ITEMS = 10, 8
"""Steps and items of a replay that nobody gave a number for."""
Say = Callable[[str], None]
"""Takes progress in words."""


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """Which steps of a run are taken again, and what for."""

    start: int | None = None
    """Step of the checkpoint to start from, 0 for the first weights; None: the earliest one with steps after it."""
    steps: int = STEPS
    """Steps to take; fewer where the run ends."""
    predictions: int = ITEMS
    """Items of each of the run's own evaluations, and of ``samples``, to ask again; 0: none."""
    samples: tuple[Path, ...] = ()
    """Units of samples that the run's last state drew."""
    inputs: ReplayInputs = field(default_factory=ReplayInputs)
    """Where data and weights lie, and the device."""


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What a replay computed, and how it was judged."""

    facts: Facts
    """Contents of `replay.json`."""
    predictions: list[dict[str, Any]]
    """Completions that were generated again."""
    environment: dict[str, Any]
    """Where it was replayed."""


@dataclass(frozen=True, kw_only=True)
class _Standard:
    """How a replay is judged here."""

    there: dict[str, str]
    here: dict[str, str]
    tolerance: Tolerance
    mode: str


def replay_run(path: Path, request: ReplayRequest, say: Say = lambda text: None) -> ReplayResult:
    """Replay a sealed run. Nothing is written.

    Args:
        path: the run directory.
        request: from where, how far.
        say: takes progress in words.

    Raises:
        RequestError: no sealed run, no such checkpoint, data or weights that are not there or not the recorded ones.
        RecordError: the record is damaged.
    """
    # Before data are read and a device is opened: a run without steps has nothing to replay.
    metrics = Run.open(path).metrics()
    if not metrics:
        raise RequestError(f"{path}, which took no step", "a run with at least one step")
    opened = reopen_run(path, request.inputs)
    from_step, checkpoint = _start(opened, len(metrics), request.start)
    # Once: the judgement and the record of the replay must speak of the same conditions.
    collected = environment.collect()
    # Before any step: where no tolerance is known, no result could be judged.
    standard = _standard(opened, collected)
    exact = standard.mode == "bitwise"
    plan = ReplayPlan(
        engine=opened.engine, source=opened.source(opened.recipe.seed, exact=exact),
        schedule=Schedule.of(opened.recipe.training), start=_initial_state(opened, checkpoint),
        position=Position.from_json(checkpoint.facts["position"]) if checkpoint else Position(),
        lines=[*metrics[from_step:from_step + request.steps]])
    say(f"{len(plan.lines)} steps from {plan.start.words}, judged by {standard.mode}")
    # The controls come after it and use the same engine, whose step is compiled by then.
    lines, weights = _replay(opened, plan)
    controls = _controls(opened, plan, from_step, standard, say)
    predictions = _predictions(opened, request, exact, say)
    facts: Facts = {
        "schema": SCHEMA, "run": opened.run.manifest.name, "from_step": from_step, "start": plan.start.words,
        "conditions": {"recorded": standard.there, "here": standard.here,
                       "differing": differing(standard.there, standard.here)},
        "mode": standard.mode, "tolerance": standard.tolerance.to_json(), "lines": lines, "weights": weights,
        "controls": controls, "predictions": _counted(predictions, request.predictions)}
    if isinstance(opened.recipe.algorithm, Distill):
        facts["teacher"] = opened.teacher.model_dump() if isinstance(opened.teacher, Absent) else opened.teacher.facts
        say("the teacher is asked again" if isinstance(opened.teacher, Teacher) else
            f"what the teacher said counts as recorded: {opened.teacher.absent}")
    verdict, reasons = judge(facts)
    facts |= {"verdict": verdict, "reasons": reasons, "sentence": sentence(facts)}
    return ReplayResult(facts=facts, predictions=predictions, environment=collected)


def replay_and_seal(path: Path, request: ReplayRequest, name: str = "",
                    say: Callable[[str], None] = lambda text: None) -> tuple[Facts, Path]:
    """`replay_run`, sealed in the run as ``replay/<name>/``.

    Args:
        path: the run directory.
        request: from where, how far.
        name: of the unit; by default from the step it starts after.
        say: takes progress in words.

    Returns:
        What came out, and the unit's place.

    Raises:
        RequestError: there is such a unit already, or as `replay_run`.
    """
    run = Run.open(path)
    if name:
        unit_path(path, name)  # said before a minute of replaying
    done = replay_run(path, request, say)
    unit = unit_path(path, name or f"from-{done.facts['from_step']:06d}-{len(done.facts['lines'])}-steps")
    write_unit(unit, run.root, done.facts, done.environment, done.predictions)
    return done.facts, unit


def _start(opened: ReopenedRun, done: int, asked: int | None) -> tuple[int, Checkpoint | None]:
    """The step to start after, and its checkpoint; None for the first weights."""
    # A checkpoint of the last step has no recorded step after it to compare with.
    before_the_end = [step for step in opened.checkpoints_by_step if step < done]
    if asked is None:
        asked = before_the_end[0] if before_the_end else 0
    if asked == 0:
        return 0, None
    if asked in before_the_end:
        return asked, opened.checkpoint(asked)
    there = ", ".join(map(str, [0, *before_the_end]))
    raise RequestError(f"--from {asked}", f"a checkpoint of {opened.run.path} with recorded steps after it: {there}",
                       "leave --from out")


def _initial_state(opened: ReopenedRun, checkpoint: Checkpoint | None) -> InitialState:
    if checkpoint is not None:
        place = checkpoint.path
        return InitialState(make=lambda: opened.engine.restore(place), words=f"checkpoint {place.name}")
    seed = opened.recipe.seed
    words = f"random weights of seed {seed}" if opened.weights.directory is None else \
        f"the weights of {opened.run.manifest.model_id}"
    return InitialState(make=lambda: opened.initial_state(opened.engine, seed), words=words)


def _controls(opened: ReopenedRun, plan: ReplayPlan, from_step: int, standard: _Standard,
              say: Say) -> dict[str, Facts]:
    exact = standard.mode == "bitwise"
    more: dict[str, tuple[str, Source]] = {}
    if opened.recipe.learns_from_rewards:
        changes = {"reward": ("one reward flipped", with_another_reward),
                   "advantage": ("one advantage moved", with_another_advantage)}
        more = {name: (words, opened.source(opened.recipe.seed, exact=exact, change=change))
                for name, (words, change) in changes.items()}
    elif opened.recipe.draws:
        more = {"teacher": ("one log probability of the teacher moved",
                            opened.source(opened.recipe.seed, exact=exact, change=with_another_teacher))}
    elif isinstance(plan.source, PairSource):
        wrong = {"pair": ("one pair of every step swapped", with_a_pair_swapped),
                 "reference": ("one log probability of the reference moved", with_another_reference)}
        more = {name: (words, replace(plan.source, change=change)) for name, (words, change) in wrong.items()}
    say(", ".join(["controls: another seed, another learning rate, a row left out, another checkpoint",
                   *(words for words, _ in more.values())]))
    other_seed = opened.recipe.seed + 1
    # Any other state of this run will do; without a second checkpoint, random weights stand for one.
    others = [step for step in opened.checkpoints_by_step if step != from_step]
    other = _initial_state(opened, opened.checkpoint(others[-1])) if others else InitialState(
        make=lambda: opened.engine.init(other_seed), words=f"random weights of seed {other_seed}")
    # After a checkpoint a seed decides the order of rows only; at step 0 it may decide the first weights as well.
    begun = plan.start if from_step else InitialState(
        make=lambda: opened.initial_state(opened.engine, other_seed), words="another seed")
    return replay_steps.controls(plan, opened.source(other_seed, exact=exact), other, begun, standard.tolerance, more)


def _standard(opened: ReopenedRun, collected: Mapping[str, Any]) -> _Standard:
    """To the bit where the conditions are the recorded ones, else by the tolerance of the run's number format."""
    manifest, device, code = opened.run.manifest, opened.engine.describe(), code_version()
    # Only packages that compute: another version of any other would forbid equal bits for nothing.
    packages = sorted({*device.versions} & {*environment.PACKAGES})
    registered = find_engine(manifest.engine)
    here = conditions(
        collected, engine=engine_text(manifest.engine, registered.distribution, registered.version),
        code=code_text(code.commit or code.absent_because, code.dirty_diff_sha256 or code.absent_because),
        device=device_text(device.platform, device.kind, device.count), mesh=device.mesh, packages=packages)
    there = of_run(manifest, loads((opened.run.path / ENVIRONMENT).read_bytes()), packages)
    if not differing(there, here) and on_cpu(there):
        return _Standard(there=there, here=here, tolerance=BITWISE, mode="bitwise")
    tolerance = tolerance_for(manifest.actual_dtypes, there, here)
    # Refused and not judged: no limit was ever measured for such conditions.
    if tolerance is None:
        raise RequestError(f"{opened.run.path}, computed in {number_format(manifest.actual_dtypes)} on a "
                           f"{platform(there)} under other conditions than here: " + ", ".join(differing(there, here)),
                           "the conditions of the run, or a number format and devices that have a tolerance",
                           "replay it where it was trained")
    return _Standard(there=there, here=here, tolerance=tolerance, mode="tolerance")


def _replay(opened: ReopenedRun, plan: ReplayPlan) -> tuple[list[Facts], Facts]:
    """The lines of the replayed steps, and the weights after them where the run kept a checkpoint of that step."""
    lines, state = [], None
    for step in replay_steps.replay(plan):
        lines.append(step.line)
        # Only the newest state is held: each is as large as the model with its optimizer.
        state = step.state
    last = lines[-1]["step"]
    # Without one, nothing recorded can be held against these weights.
    if last not in opened.checkpoints_by_step:
        return lines, {"absent": f"the run kept no checkpoint of step {last}"}
    # Takes as much disk as a checkpoint; both sides are then compared as files, without the engine.
    with tempfile.TemporaryDirectory(prefix="workings-replay-") as folder:
        opened.engine.save(state, Path(folder))
        return lines, compare_weights(last, opened.checkpoint(last).path, Path(folder))


def _own_evaluations(run: Run) -> Iterator[RecordedEvaluation]:
    """The run's own evaluations of its last state."""
    for unit in run.evaluations():
        config = loads((unit.path / EVALUATION_CONFIG).read_bytes())
        # Answers from elsewhere cannot be generated again, and those of another run's state say nothing about this one.
        if config.get("source") == {"kind": "generated"} and config.get("made_from") == run.root:
            yield RecordedEvaluation(unit=f"eval/{unit.name}", config=config,
                                     rows=jsonl.read(unit.path / PREDICTIONS)[0])


def _drawn_by(run: Run, paths: Sequence[Path]) -> Iterator[RecordedEvaluation]:
    """Units of samples that a run drew. Raises `RequestError` for another run's."""
    for path in paths:
        unit = SampleUnit.open(path)
        if unit.config["made_from"] != run.root:
            raise RequestError(f"--samples {path}, which {run.path} did not draw",
                               "samples whose made_from is the run's root digest")
        yield RecordedEvaluation(unit=f"{SAMPLED}/{unit.root}", config=unit.config,
                                 rows=jsonl.read(path / PREDICTIONS)[0])


def _predictions(opened: ReopenedRun, request: ReplayRequest, whole_batches: bool, say: Say) -> list[dict[str, Any]]:
    last, count = opened.run.manifest.completed_steps, request.predictions
    units = [*_own_evaluations(opened.run), *_drawn_by(opened.run, request.samples)] \
        if count and last in opened.checkpoints_by_step else []
    if not units:
        return []
    say(f"{count} predictions of {', '.join(unit.unit for unit in units)}")
    # All units were answered by the last state, so it is restored once for all of them.
    session = opened.session(opened.engine, opened.engine.restore(opened.checkpoint(last).path))
    return [line for unit in units for line in generate_again(session, unit, count, whole_batches=whole_batches)]


def _counted(predictions: list[dict[str, Any]], count: int) -> Facts:
    if predictions:
        return {"units": sorted({line["unit"] for line in predictions}), "asked": len(predictions),
                "same": sum(line["same"] for line in predictions)}
    if not count:
        return {"absent": "none were asked for"}
    return {"absent": "the run has no evaluation of its last checkpoint that it generated itself"}
