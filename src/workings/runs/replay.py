"""`replay`: repeats some of a sealed run's steps and answers, and compares the results with the record."""

import secrets
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.data.batches import Position
from workings.data.pair_rows import build_example_rows, example_ids
from workings.data.rows import RowSet
from workings.engines.registry import find_engine
from workings.errors import RecordError, RequestError
from workings.evidence.replay import conditions
from workings.evidence.replay.comparison import Facts
from workings.evidence.replay.outcomes import RecordedEvaluation, compare_weights, generate_again
from workings.evidence.replay.step_selection import StepRange, all_steps, choose_numbers, chosen_steps, step_coverage
from workings.evidence.replay.steps import InitialState, ReplayPlan, replay_steps, run_controls
from workings.hardware.device import row_devices
from workings.inputs.datasets import RunData, find_data
from workings.inputs.resolve import recorded_bases
from workings.record import environment, jsonl
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import ENVIRONMENT, EVALUATION_CONFIG, PREDICTIONS, PROMPTS, ROWS, SAMPLED
from workings.record.reader import RunRecord
from workings.record.values import Absent, absent
from workings.rollouts.prompts import PromptSet, read_recorded_prompts
from workings.runs.open_model import AS_RECORDED, SealedRun
from workings.runs.run_metadata import code_version
from workings.samples.unit import SampleUnit
from workings.ways.parts.replay_source import BatchSource, ReopenedRun
from workings.ways.parts.replays import replay, wrong_replays
from workings.ways.parts.teacher import Teacher, find_teacher

STEPS, ITEMS = 10, 8
"""Default numbers of steps and items of a replay."""
Say = Callable[[str], None]
"""Prints progress."""


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """Steps and answers of a run to repeat."""

    start: int | None = None
    """Step of the checkpoint to start from, 0 for the first weights; None: the earliest one with steps after it."""
    steps: int = STEPS
    """Number of steps; fewer if the run ends before."""
    predictions: int = ITEMS
    """Items of each of the run's own evaluations, and of ``samples``, to answer again, chosen by the seed; 0: none."""
    drawn: bool = False
    """Whether the seed chooses the steps, too."""
    whole: bool = False
    """Whether to repeat every step and every answer; ``steps`` and ``predictions`` then have no effect."""
    seed: int | None = None
    """Seed of the selection; None: a random one, which the result names."""
    samples: tuple[Path, ...] = ()
    """Units of samples from the run's last state."""
    data: Path | None = None
    """The file of traces; None: where the recipe names it."""
    weights: Path | None = None
    """Directory of the weights that training started from; None: where the recipe names it."""
    fsdp: int = 0
    """Devices over which rows and parameters are split; 0: as the recipe's mesh resolves here."""


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """When a replay agrees with the record. This depends on the conditions, such as versions and devices."""

    recorded: dict[str, str]
    here: dict[str, str]
    tolerance: conditions.Tolerance

    @property
    def exact(self) -> bool:
        """Whether all bits must be equal."""
        return self.tolerance is conditions.BITWISE


def replay_run(path: Path, request: ReplayRequest, say: Say = lambda text: None) -> Facts:
    """Replays a sealed run. Returns all numbers from which a verdict follows; nothing is written.

    Raises `RequestError` for what is missing or not as recorded, and `RecordError` for a damaged record.
    """
    metrics = RunRecord.open(path).metrics()
    if not metrics:
        raise RequestError(f"{path} took no step", "a run with at least one step")
    opened = reopen_run(path, data=request.data, weights=request.weights, fsdp=request.fsdp)
    # From the system's randomness, so that the record's maker cannot foresee the selection.
    seed = secrets.randbits(32) if request.seed is None else request.seed
    # Before any step, because it refuses conditions without a tolerance.
    criteria = _criteria(opened)
    mode = "bitwise" if criteria.exact else "tolerance"
    ranges = _select_steps(opened, request, len(metrics), criteria.exact, seed)
    # One for all ranges, because it may read the reference's log probabilities of all pairs.
    source = replay(opened, opened.recipe.seed, exact=criteria.exact)
    plans = [_plan(opened, source, steps, metrics) for steps in ranges]
    coverage: Facts = {"seed": seed, "whole": request.whole, "steps": step_coverage(ranges, len(metrics))}
    say(f"steps to replay: {coverage['steps']['replayed']}, in parts of the run: {len(plans)}; criteria: {mode}")
    replayed = [_replay(opened, plan) for plan in plans]
    weights_after = [weights for _, weights in replayed]
    # Each control costs as many steps as a replay, so only the first range has controls. They go past the end of a
    # short range, because one step may not show a difference.
    start, end = ranges[0].start, ranges[0].end
    control_plan = replace(plans[0], lines=[*metrics[start:max(end, start + STEPS)]]) if request.whole else plans[0]
    controls = _controls(opened, control_plan, start, criteria, say)
    units = answered_units(opened, request.samples, by_batch=criteria.exact) if request.predictions else []
    answers = [(unit, len(unit.groups) if request.whole else unit.groups_for(request.predictions)) for unit in units]
    coverage["answers"] = [{"unit": unit.unit, "items": len(unit.items), "asked": unit.items_in(count)}
                           for unit, count in answers]
    predictions = ask_again(opened, answers, seed, say)
    facts: Facts = {
        "run": opened.run.manifest.name, "from_step": start,
        "start": plans[0].start.words if len(plans) == 1 else f"{len(plans)} kept states",
        "conditions": {"recorded": criteria.recorded, "here": criteria.here,
                       "differing": conditions.differing_conditions(criteria.recorded, criteria.here)},
        "mode": mode, "tolerance": criteria.tolerance.to_json(), "seed": seed,
        "lines": [line for lines, _ in replayed for line in lines],
        # Those that differ most from their checkpoint.
        "weights": max((weights for weights in weights_after if "absent" not in weights), default=weights_after[0],
                       key=lambda weights: float(weights["largest_difference"])),
        "controls": controls, "predictions": counted(predictions, request.predictions)}
    if request.drawn or request.whole:
        facts["coverage"] = coverage
    if opened.recipe.algorithm.teacher_keys is not None:
        facts["teacher"] = opened.teacher.model_dump() if isinstance(opened.teacher, Absent) else opened.teacher.facts
        say("the teacher is queried again" if isinstance(opened.teacher, Teacher) else
            f"the recorded log probabilities of the teacher are used: {opened.teacher.absent}")
    return facts


def _plan(opened: ReopenedRun, source: BatchSource, steps: StepRange, metrics: list[dict[str, Any]]) -> ReplayPlan:
    checkpoint = opened.checkpoint(steps.start) if steps.start else None
    position = Position.from_json(checkpoint.facts["position"]) if checkpoint else Position()
    return ReplayPlan(engine=opened.engine, source=source, training=opened.recipe.training, position=position,
                      start=_initial_state(opened, checkpoint), lines=[*metrics[steps.start:steps.end]])


def _select_steps(opened: ReopenedRun, request: ReplayRequest, done: int, exact: bool,
                  seed: int) -> tuple[StepRange, ...]:
    """The steps to repeat, of the ``done`` ones of the run. Raises `RequestError` for a start without a checkpoint."""
    # A checkpoint of the last step has no recorded step after it to compare with.
    states = [0, *(step for step in opened.checkpoints_by_step if step < done)]
    if request.whole:
        return all_steps(states, done, None if exact else conditions.MEASURED_STEPS)
    if request.drawn:
        return chosen_steps(states, done, request.steps, seed)
    start = next(iter(states[1:]), 0) if request.start is None else request.start
    if start not in states:
        raise RequestError(f"a replay cannot start after step {start}",
                           f"a checkpoint of {opened.run.path} with recorded steps after it: "
                           f"{', '.join(map(str, states))}", "leave the start out")
    return (StepRange(start=start, end=min(done, start + request.steps)),)


def _initial_state(opened: ReopenedRun, checkpoint: Checkpoint | None) -> InitialState:
    if checkpoint is not None:
        path = checkpoint.path
        return InitialState(make=lambda: opened.engine.restore(path), words=f"checkpoint {path.name}")
    seed, words = opened.recipe.seed, f"the weights of {opened.run.manifest.model_id}"
    if opened.weights.directory is None:
        words = f"random weights of seed {seed}"
    return InitialState(make=lambda: opened.initial_state(opened.engine, seed), words=words)


def _controls(opened: ReopenedRun, plan: ReplayPlan, from_step: int, criteria: Criteria, say: Say) -> dict[str, Facts]:
    """Replays that are wrong on purpose: unless their results differ from the record, a replay proves nothing."""
    changed_sources = wrong_replays(plan.source, opened.recipe.algorithm.controls)
    say(", ".join(["controls: another seed, another learning rate, a row left out, another checkpoint",
                   *(words for words, _ in changed_sources.values())]))
    other_seed = opened.recipe.seed + 1
    # Any other state of this run; without a second checkpoint, random weights.
    other_steps = [step for step in opened.checkpoints_by_step if step != from_step]
    other_state = _initial_state(opened, opened.checkpoint(other_steps[-1])) if other_steps else InitialState(
        make=lambda: opened.engine.init(other_seed), words=f"random weights of seed {other_seed}")
    # After a checkpoint a seed decides only the order of rows; at step 0 it may decide the initial weights, too.
    start_of_other_seed = plan.start if from_step else InitialState(
        make=lambda: opened.initial_state(opened.engine, other_seed), words="another seed")
    return run_controls(plan, replay(opened, other_seed, exact=criteria.exact), other_state, start_of_other_seed,
                        criteria.tolerance, changed_sources)


def _criteria(opened: ReopenedRun) -> Criteria:
    """Equal bits on a CPU under the conditions of the run; otherwise the tolerance of the number format."""
    manifest, device = opened.run.manifest, opened.engine.describe()
    commit, changes = (value if isinstance(value, str) else value.absent for value in code_version())
    packages = sorted({*device.versions} & {*environment.PACKAGES})
    registered = find_engine(manifest.engine)
    here = conditions.conditions(
        environment.collect(), engine=manifest.engine, distribution=registered.distribution,
        version=registered.version, commit=commit, changes=changes, device=device, packages=packages)
    recorded = conditions.conditions_of_run(manifest, loads((opened.run.path / ENVIRONMENT).read_bytes()), packages)
    differing, platform = conditions.differing_conditions(recorded, here), conditions.platform(recorded)
    if platform == "cpu" and not differing:
        return Criteria(recorded=recorded, here=here, tolerance=conditions.BITWISE)
    tolerance = conditions.tolerance_for(manifest.actual_dtypes, recorded, here)
    # Refused, because no tolerance was measured for such conditions.
    if tolerance is None:
        number_format = conditions.number_format(manifest.actual_dtypes)
        raise RequestError(f"{opened.run.path} was computed in {number_format} on a {platform} under other conditions "
                           f"than here: {', '.join(differing)}",
                           "the conditions of the run, or a number format and devices that have a tolerance",
                           "replay it where it was trained")
    return Criteria(recorded=recorded, here=here, tolerance=tolerance)


def _replay(opened: ReopenedRun, plan: ReplayPlan) -> tuple[list[Facts], Facts]:
    """The lines of the replayed steps, and the comparison of the weights after them with the run's checkpoint."""
    lines, state = [], None
    for line, after in replay_steps(plan):
        lines.append(line)
        # Keep only the newest state, because each has the size of model and optimizer.
        state = after
    last = lines[-1]["step"]
    if last not in opened.checkpoints_by_step:
        return lines, {"absent": f"the run kept no checkpoint of step {last}"}
    # Needs disk space for a checkpoint; both sides are compared as files.
    with tempfile.TemporaryDirectory(prefix="workings-replay-") as folder:
        opened.engine.save(state, Path(folder))
        return lines, compare_weights(last, opened.checkpoint(last).path, Path(folder))


def answered_units(opened: ReopenedRun, samples: Sequence[Path], *, by_batch: bool) -> list[RecordedEvaluation]:
    """Answers of the run's last state; none if it was not kept. Raises `RequestError` for samples of another model."""
    if opened.run.manifest.completed_steps not in opened.checkpoints_by_step:
        return []
    units = []
    for name in opened.run.evaluations():
        unit = opened.run.path / "eval" / name
        config = loads((unit / EVALUATION_CONFIG).read_bytes())
        # Not answers that another program or another model gave.
        if config.get("source") == {"kind": "generated"} and config.get("made_from") == opened.run.root:
            units.append(RecordedEvaluation(unit=f"eval/{name}", config=config, by_batch=by_batch,
                                            rows=jsonl.read(unit / PREDICTIONS)[0]))
    for path in samples:
        drawn = SampleUnit.open(path)
        if drawn.config["made_from"] != opened.run.root:
            raise RequestError(f"--samples {path} were not sampled from {opened.run.path}",
                               "samples whose made_from is the run's root digest")
        units.append(RecordedEvaluation(unit=f"{SAMPLED}/{drawn.root}", config=drawn.config, by_batch=by_batch,
                                        rows=jsonl.read(path / PREDICTIONS)[0]))
    return units


def ask_again(opened: ReopenedRun, selection: Sequence[tuple[RecordedEvaluation, int]], seed: int,
              say: Say) -> list[dict[str, Any]]:
    """Generates answers again. Each entry of ``selection`` has a number of groups, which the seed chooses."""
    if not selection:
        return []
    say("answers to repeat: " + ", ".join(
        f"{unit.items_in(count)} of {len(unit.items)} items of {unit.unit}" for unit, count in selection))
    session = opened.session(
        opened.engine, opened.engine.restore(opened.checkpoint(opened.run.manifest.completed_steps).path))
    return [line for unit, count in selection
            for line in generate_again(session, unit, choose_numbers(seed, unit.unit, len(unit.groups), count))]


def counted(lines: list[dict[str, Any]], requested: int) -> Facts:
    """Numbers of repeated and of equal completions, or why they are missing; ``requested``: items per unit."""
    if lines:
        return {"units": sorted({line["unit"] for line in lines}), "asked": len(lines),
                "same": sum(line["same"] for line in lines)}
    return {"absent": "the run has no evaluation of its last checkpoint that it generated itself" if requested else
                      "none requested"}


def reopen_run(path: Path, *, data: Path | None = None, weights: Path | None = None, fsdp: int = 0) -> ReopenedRun:
    """Opens a sealed run as it was trained: its engine, its rows, its first weights, its checkpoints.

    Arguments are those of `ReplayRequest`. Raises `RequestError` and `RecordError`.
    """
    sealed = SealedRun.open(path)
    run, recipe = sealed.run, sealed.recipe
    # First, because digests are checked without opening a device.
    if PROMPTS in recipe.algorithm.records:
        # The record holds prompts with their tokens: no data file is needed.
        read = RunData(examples=[], held_out=[], items=[], digests={})
        prompts = read_recorded_prompts(jsonl.read(run.path / PROMPTS)[0], run.manifest.seed)
        if prompts.digest != run.manifest.data_digests.get("prompts"):
            raise RecordError(f"{run.path}: {PROMPTS} differs from its digest in the manifest")
        trained_on: RowSet | PromptSet = prompts
    else:
        read = _recorded_data(sealed, data)
        trained_on = _recorded_rows(sealed, read)
    first = sealed.recorded_weights(weights)
    engine = sealed.open_engine(AS_RECORDED, first.directory, fsdp)
    rows_of_micro_batch = run.manifest.global_batch // recipe.batch.accumulation
    # Micro batches keep their rows: where these do not divide among the devices here, one device takes them all.
    if not fsdp and rows_of_micro_batch % row_devices(engine.describe().mesh):
        engine = sealed.open_engine(AS_RECORDED, first.directory, fsdp=1)
    return ReopenedRun(loaded=sealed.loaded, data=read, weights=first, tokenizer=sealed.tokenizer,
                       template=sealed.template, shape=sealed.shape, run=run, engine=engine,
                       trained_on=trained_on, teacher=_recorded_teacher(sealed))


def _recorded_data(sealed: SealedRun, given: Path | None) -> RunData:
    """The data that the run was trained on, checked by their digest; evaluation data are not needed."""
    run, recipe = sealed.run, sealed.recipe
    # Absolute, because a relative name would be relative to the recipe.
    traces = recipe.data.traces if given is None else str(given.absolute())
    # No step depends on held-out traces and items, which may be gone.
    traces_only = recipe.model_copy(update={
        "data": recipe.data.model_copy(update={"traces": traces}),
        "evaluation": recipe.evaluation.model_copy(update={"traces": "none", "items": "none"})})
    expected = run.manifest.data_digests.get("traces")
    try:
        data = find_data(replace(sealed.loaded, recipe=traces_only))
    except RequestError as error:
        raise RequestError(f"{error.given} ({run.path.name} was trained on it)",
                           f"a file with SHA-256 {expected}", "--data FILE gives its path") from None
    if data.digests["traces"] != expected:
        raise RequestError(f"traces {traces} have another SHA-256: {data.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {expected}", "--data FILE gives their path")
    return data


def _recorded_rows(sealed: SealedRun, data: RunData) -> RowSet:
    """The rows that the run was trained on, selected by its row index and checked by its digest."""
    run, digest = sealed.run, sealed.run.manifest.data_digests.get("rows")
    # The index names the rows that were used: a smoke run has only the first traces, and long rows may be dropped.
    index = {row["id"]: row for row in jsonl.read(run.path / ROWS)[0]}
    examples = sealed.recipe.algorithm.examples
    known = example_ids(examples, [*index])
    rows = build_example_rows(examples, [entry for entry in data.examples if entry.id in known],
                              sealed.tokenizer, sealed.template, sealed.recipe.data)
    # The rules that make rows may have changed with the version.
    if rows.digest != digest:
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digest)[:16]}…)")
    # A row's digest covers its mask, but not the count of learned turns.
    wrong = [line["id"] for line in rows.index if line["status"] == "kept"
             and line.get("learned_turns") != index[line["id"]].get("learned_turns")]
    if wrong:
        raise RecordError(f"{run.path}: {ROWS} has other learned turns than the data for {wrong[0][:80]!r}")
    return rows


def _recorded_teacher(sealed: SealedRun) -> Teacher | Absent:
    """The teacher, if it is at the recipe's path or near the run and equals the recorded one byte for byte."""
    algorithm = sealed.recipe.algorithm.teacher_keys
    if algorithm is None:
        return absent("the run has none")
    try:
        teacher = find_teacher(sealed.loaded, sealed.tokenizer, sealed.shape, recorded_bases(sealed.run))
        is_recorded_one = teacher.digest == sealed.run.manifest.data_digests.get("teacher")
    # A missing teacher is no error: the record has its log probabilities.
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")
    except RecordError as error:
        return absent(str(error))
    return teacher if is_recorded_one else absent(f"{algorithm.teacher} differs from the teacher of the run")
