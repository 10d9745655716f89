"""`replay`: open a sealed run as it was trained, take some of its steps again, and say whether the same comes out."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, check_recipe
from workings.config.recipe import Recipe
from workings.config.training import MeshConfig
from workings.data.batches import Batches, Position
from workings.data.rows import RowSet, build_rows
from workings.engines.base import Engine, EngineRequest, State
from workings.engines.registry import find_engine
from workings.errors import RecordError, RequestError
from workings.evidence.replay import course as courses
from workings.evidence.replay.conditions import (
    code_text,
    conditions,
    device_text,
    differing,
    engine_text,
    of_run,
    on_cpu,
)
from workings.evidence.replay.course import Beginning, Course
from workings.evidence.replay.judge import SCHEMA, Facts, judge, sentence
from workings.evidence.replay.predictions import Asked, Model, generate_again
from workings.evidence.replay.tolerance import BITWISE, Tolerance, tolerance_for
from workings.evidence.replay.unit import unit_path, write_unit
from workings.evidence.replay.weights import compare_weights
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.record import environment, jsonl
from workings.record.absent import Absent
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.digest import file_digest
from workings.record.layout import ENVIRONMENT, OVERRIDES, ROWS
from workings.record.reader import Run
from workings.runs.code_version import code_version
from workings.runs.datasets import find_sources
from workings.runs.describe import MODEL_SHAPE, TOKENIZER
from workings.runs.inputs import find_weights
from workings.runs.load import AS_RECORDED
from workings.training.schedule import Schedule

STEPS, PREDICTIONS = 10, 8
"""Steps and items of a replay that nobody gave a number for."""


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """What is replayed, and where the parts lie that a record does not hold."""

    start: int | None = None
    """Step of the checkpoint to start from, 0 for the first weights; None: the earliest one with steps after it."""
    steps: int = STEPS
    """Steps to take; fewer where the run ends."""
    predictions: int = PREDICTIONS
    """Items of each of the run's own evaluations to ask again; 0: none."""
    data: Path | None = None
    """The file of traces; None: where the recipe names it."""
    weights: Path | None = None
    """Directory of the weights that training started from; None: where the recipe names it."""
    device: str = AS_RECORDED


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What came out."""

    facts: Facts
    """Contents of `replay.json`."""
    predictions: list[dict[str, Any]]
    """Completions that were generated again."""
    environment: dict[str, Any]


def replay_run(path: Path, request: ReplayRequest, say: Callable[[str], None] = lambda text: None) -> Replayed:
    """Replay a sealed run. Nothing is written.

    Args:
        path: the run directory.
        request: from where, how far.
        say: takes progress in words.

    Raises:
        RequestError: no sealed run, no such checkpoint, data or weights that are not there or not the recorded ones.
        RecordError: the record is damaged.
    """
    opened = _open(path, request)
    course, tolerance, mode = opened.course, opened.tolerance, opened.mode
    say(f"{len(course.lines)} steps from {course.start.words}, judged {mode}")
    lines, weights = _replay(opened)
    say("controls: another seed, another learning rate, a row left out, another checkpoint")
    found = courses.controls(course, opened.other_order, opened.other_start, opened.other_seed_start, tolerance)
    predictions = _predictions(opened, request.predictions, say)
    facts: Facts = {
        "schema": SCHEMA, "run": opened.run.manifest.name, "from_step": opened.from_step, "start": course.start.words,
        "conditions": {"recorded": opened.there, "here": opened.here,
                       "differing": differing(opened.there, opened.here)},
        "mode": mode, "tolerance": tolerance.to_json(), "lines": lines, "weights": weights, "controls": found,
        "predictions": _counted(opened, predictions, request.predictions)}
    verdict, reasons = judge(facts)
    facts |= {"verdict": verdict, "reasons": reasons, "sentence": sentence(facts)}
    return Replayed(facts=facts, predictions=predictions, environment=opened.environment)


@dataclass(frozen=True, kw_only=True)
class _Opened:
    run: Run
    engine: Engine
    course: Course
    from_step: int
    other_order: Batches
    other_start: Beginning
    other_seed_start: Beginning
    checkpoints: list[Checkpoint]
    tokenizer: Tokenizer
    template: ChatTemplate
    environment: dict[str, Any]
    there: dict[str, str]
    here: dict[str, str]
    tolerance: Tolerance
    mode: str


def _open(path: Path, request: ReplayRequest) -> _Opened:
    run = Run.open(path)
    manifest = run.manifest
    metrics = run.metrics()
    if not metrics or request.steps < 1:
        raise RequestError(f"{path}: {len(metrics)} recorded steps, {request.steps} to replay", "at least one step")
    loaded = _as_it_was_asked(run, request)
    recipe = loaded.recipe
    tokenizer = Tokenizer.load(path / TOKENIZER)
    template = ChatTemplate.for_config(recipe.data.template, tokenizer)
    rows = _rows(run, loaded, tokenizer, template)
    weights = _weights(run, loaded, request)
    checkpoints = [run.checkpoints.load(folder) for folder in run.checkpoints.folders()]
    from_step, checkpoint = _start_step(path, checkpoints, len(metrics), request)
    engine = _engine(run, recipe, weights, request.device)

    def first(seed: int) -> State:
        return engine.init(seed) if weights is None else engine.load(weights)

    def begins(at: Checkpoint) -> Beginning:
        return Beginning(make=lambda: engine.restore(at.path), words=f"checkpoint {at.path.name}")

    words = f"random weights of seed {recipe.seed}" if weights is None else f"the weights of {manifest.model_id}"
    start = begins(checkpoint) if checkpoint else Beginning(make=lambda: first(recipe.seed), words=words)
    others = [at for at in checkpoints if at.step != from_step]
    other = begins(others[-1]) if others else Beginning(make=lambda: engine.init(recipe.seed + 1),
                                                        words=f"random weights of seed {recipe.seed + 1}")
    other_seed = Beginning(make=lambda: first(recipe.seed + 1), words="another seed") if not checkpoint else start

    def batches(seed: int) -> Batches:
        # As many rows a step as the run had, whatever this machine's mesh is.
        return Batches(rows, seed=seed, rows_per_micro_batch=recipe.batch.micro_batch * manifest.mesh.get("fsdp", 1),
                       accumulation=recipe.batch.accumulation, data_config=recipe.data)

    position = Position.from_json(checkpoint.facts["position"]) if checkpoint else Position()
    course = Course(engine=engine, batches=batches(recipe.seed), schedule=Schedule.of(recipe.training), start=start,
                    position=position, lines=[*metrics[from_step:from_step + request.steps]])
    recorded = loads((path / ENVIRONMENT).read_bytes())
    collected = environment.collect()
    there, here = _conditions(run, engine, recorded, collected)
    bitwise = not differing(there, here) and on_cpu(there)
    tolerance = BITWISE if bitwise else tolerance_for(manifest.actual_dtypes.get("compute", ""))
    if tolerance is None:
        raise RequestError(f"{path}, computed in {manifest.actual_dtypes.get('compute')}, on another machine than this",
                           "the conditions of the run, or a number format whose tolerance was measured",
                           "replay it where it was trained")
    return _Opened(run=run, engine=engine, course=course, from_step=from_step, other_order=batches(recipe.seed + 1),
                   other_start=other, other_seed_start=other_seed, checkpoints=checkpoints, tokenizer=tokenizer,
                   template=template, environment=collected, there=there, here=here, tolerance=tolerance,
                   mode="bitwise" if bitwise else "tolerance")


def _as_it_was_asked(run: Run, request: ReplayRequest) -> LoadedRecipe:
    """The run's recipe, with paths that lead where they led; evaluation data are not needed."""
    recipe = check_recipe(run.manifest.config_snapshot, str(run.path))
    asked = loads((run.path / OVERRIDES).read_bytes())
    base = asked.get("base") if isinstance(asked, dict) else None
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(
        update={"traces": "none", "items": "none"})})
    if request.data is not None:
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(
            update={"traces": str(request.data.absolute())})})
    place = run.path.resolve() / base if isinstance(base, str) else Path.cwd()
    return LoadedRecipe(recipe=recipe, text="", origin=str(run.path), base=place.resolve(), overrides=())


def _rows(run: Run, loaded: LoadedRecipe, tokenizer: Tokenizer, template: ChatTemplate) -> RowSet:
    """The rows that the run was trained on, found again by its row index and proved by its digests."""
    digests = run.manifest.data_digests
    try:
        sources = find_sources(loaded)
    except RequestError as error:
        raise RequestError(f"{error.given}, the data that {run.path.name} was trained on",
                           f"a file with SHA-256 {digests.get('traces')}", "--data FILE says where it lies") from None
    if sources.digests["traces"] != digests.get("traces"):
        raise RequestError(f"traces {loaded.recipe.data.traces} with SHA-256 {sources.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {digests.get('traces')}",
                           "--data FILE says where they lie")
    known = {row["id"] for row in jsonl.read(run.path / ROWS)[0]}
    rows = build_rows([trace for trace in sources.traces if trace.id in known], tokenizer, template,
                      loaded.recipe.data)
    if rows.digest != digests.get("rows"):
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digests.get('rows'))[:16]}…)")
    return rows


def _weights(run: Run, loaded: LoadedRecipe, request: ReplayRequest) -> Path | None:
    """Where the weights lie that training started from, proved by their digests; None for random ones."""
    recorded = run.manifest.weight_digests
    if isinstance(recorded, Absent):
        return None
    directory = request.weights or find_weights(loaded).directory
    assert directory is not None  # random weights have no digests
    for name, digest in recorded.items():
        if not (directory / name).is_file() or file_digest(directory / name) != digest:
            raise RequestError(f"{directory / name}, which is not the file that training started from",
                               f"SHA-256 {digest}", "--weights DIRECTORY says where the weights lie")
    return directory


def _start_step(path: Path, checkpoints: list[Checkpoint], done: int,
                request: ReplayRequest) -> tuple[int, Checkpoint | None]:
    """The step to start after, and its checkpoint; None for the first weights."""
    before_the_end = [at for at in checkpoints if at.step < done]
    if request.start is None:
        return (before_the_end[0].step, before_the_end[0]) if before_the_end else (0, None)
    if request.start == 0:
        return 0, None
    for at in before_the_end:
        if at.step == request.start:
            return at.step, at
    there = ", ".join(["0", *(str(at.step) for at in before_the_end)])
    raise RequestError(f"--from {request.start}", f"a checkpoint of {path} with recorded steps after it: {there}",
                       "leave --from out")


def _engine(run: Run, recipe: Recipe, weights: Path | None, device: str) -> Engine:
    """The run's engine on this machine: on the mesh that the recipe means here, or on one device where that is none."""
    wanted = recipe.device if device == AS_RECORDED else device
    shape = ModelShape(**loads((run.path / MODEL_SHAPE).read_bytes()))

    def opened(mesh: MeshConfig) -> Engine:
        return find_engine(recipe.engine).engine.open(EngineRequest(
            shape=shape, device="gpu" if wanted == "cuda" else wanted,  # type: ignore[arg-type]
            optimizer=recipe.optimizer, precision=recipe.precision, memory=recipe.memory, mesh=mesh, seed=recipe.seed,
            method=recipe.method, weights=weights))

    rows = run.manifest.global_batch // recipe.batch.accumulation
    try:
        engine = opened(recipe.mesh)
    except RequestError:  # the recipe asks for more devices than there are here
        return opened(MeshConfig(fsdp=1, tp=1))
    return engine if rows % engine.describe().mesh.get("fsdp", 1) == 0 else opened(MeshConfig(fsdp=1, tp=1))


def _conditions(run: Run, engine: Engine, recorded: Mapping[str, Any],
                collected: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """What the run recorded, and what holds here."""
    device, code, manifest = engine.describe(), code_version(), run.manifest
    packages = sorted({*device.versions} & {*environment.PACKAGES})
    registered = find_engine(manifest.engine)
    here = conditions(
        collected, engine=engine_text(manifest.engine, registered.distribution, registered.version),
        code=code_text(code.commit or code.absent_because, code.dirty_diff_sha256 or code.absent_because),
        device=device_text(device.platform, device.kind, device.count), mesh=device.mesh, packages=packages)
    return of_run(manifest, recorded, packages), here


def _replay(opened: _Opened) -> tuple[list[Facts], Facts]:
    """The lines of the replayed steps, and the weights after them where the run kept a checkpoint of that step."""
    lines, state = [], None
    for taken in courses.replay(opened.course):
        lines.append(taken.line)
        state = taken.state
    last = next((at for at in opened.checkpoints if at.step == lines[-1]["step"]), None)
    if last is None:
        return lines, {"absent": f"the run kept no checkpoint of step {lines[-1]['step']}"}
    with tempfile.TemporaryDirectory(prefix="workings-replay-") as folder:
        opened.engine.save(state, Path(folder))
        return lines, compare_weights(last.step, last.path, Path(folder))


def _asked(opened: _Opened) -> Iterator[Asked]:
    """The run's own evaluations of its last state."""
    run = opened.run
    for unit in run.evaluations():
        config = loads((unit.path / "eval_config.json").read_bytes())
        if config.get("source") == {"kind": "generated"} and config.get("made_from") == run.root:
            yield Asked(unit=f"eval/{unit.name}", config=config, rows=jsonl.read(unit.path / "predictions.jsonl")[0])


def _predictions(opened: _Opened, count: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    last = next((at for at in opened.checkpoints if at.step == opened.run.manifest.completed_steps), None)
    units = list(_asked(opened)) if count and last else []
    if not units or last is None:
        return []
    say(f"{count} predictions of {', '.join(unit.unit for unit in units)}")
    model = Model(engine=opened.engine, state=opened.engine.restore(last.path), tokenizer=opened.tokenizer,
                  template=opened.template)
    return [line for unit in units
            for line in generate_again(model, unit, count, whole_batches=opened.mode == "bitwise")]


def _counted(opened: _Opened, predictions: list[dict[str, Any]], count: int) -> Facts:
    if predictions:
        return {"units": sorted({line["unit"] for line in predictions}), "asked": len(predictions),
                "same": sum(line["same"] for line in predictions)}
    if not count:
        return {"absent": "none were asked for"}
    return {"absent": "the run has no evaluation of its last checkpoint that it generated itself"}


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
