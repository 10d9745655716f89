"""Everything that must be right before a step is taken: data, tokenizer, model shape, device, and a step that fits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from workings.config.load import LoadedRecipe
from workings.data.batches import fixed_batches
from workings.data.rows import build_rows
from workings.engines.base import Engine, EngineRequest, Inspection, ProgramName
from workings.engines.left_aside import LeftAside, find_left_aside
from workings.engines.registry import RegisteredEngine, find_engine
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch, BatchShape
from workings.planning.changes import with_counted_steps
from workings.planning.frozen import TEACHER
from workings.planning.verdict import Verdict, judge
from workings.record.waiting import waiting
from workings.runs.datasets import RunData
from workings.runs.resolve import ResolvedRun, resolve
from workings.runs.training_data import TrainingData, beside_frozen, read_training_data
from workings.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class TrainSetup(ResolvedRun):
    """A run that could start: a resolved recipe, its rows, and an engine that has compiled the step."""

    learned: TrainingData
    """What it learns from."""
    registered: RegisteredEngine
    engine: Engine
    device: DeviceFacts
    device_check: Mapping[str, Any]
    held_out: list[Batch]
    schedule: Schedule
    request: EngineRequest
    """What the engine was asked for."""
    longest_batch: BatchShape
    """Accumulation, rows over all devices, positions: the batch that decides whether the run fits."""
    program: ProgramName
    """What decides whether it fits: the step, or asking the teacher where the step alone would fit."""
    inspection: Inspection
    """What the compiler says about the step for that batch, the very program that the run will execute; or what the
    formula says about asking the teacher."""
    verdict: Verdict

    @property
    def global_batch(self) -> int:
        """Rows per update."""
        batch = self.recipe.batch
        return batch.micro_batch * batch.accumulation * self.device.mesh["fsdp"]

    @cached_property
    def left_aside(self) -> LeftAside | None:
        """What the folder of weights holds beside the text part; None where it holds text alone. They must be there."""
        return find_left_aside(self.weights.directory, self.shape) if self.weights.directory else None


def prepare(loaded: LoadedRecipe, data: RunData | None = None) -> TrainSetup:
    """Build and check everything; the cheap checks first, the device and the compiler last.

    Args:
        loaded: what is asked for.
        data: the data, where the caller has read or cut them already.

    Raises:
        RequestError: anything asked for that is not there or does not go together.
    """
    recipe = loaded.recipe
    with waiting(f"loading the engine {recipe.engine}"):
        registered = find_engine(recipe.engine)
    with waiting("reading the data"):
        # Without tensors: gigabytes are downloaded only for a run that fits.
        resolved = resolve(loaded, data, tensors=False)
        ready = read_training_data(resolved)

    request = EngineRequest.of(recipe, resolved.shape, weights=resolved.weights.directory)
    with waiting(f"opening the device with the engine {recipe.engine}"):
        engine = registered.engine.open(request)
        device = engine.describe()
        # A device that is listed need not compute: one kernel runs before anything is built on it.
        device_check = engine.check_device()
    # Over how many devices rows are split (`mesh.fsdp: auto`) is known only of an opened engine.
    learned = ready(device.mesh["fsdp"])
    learned.check(engine)
    loaded = _counted(loaded, learned.steps)
    held_out: list[Batch] = []
    if resolved.data.held_out:
        held_out_rows = build_rows(resolved.data.held_out, resolved.tokenizer, resolved.template, recipe.data)
        held_out = fixed_batches(held_out_rows, rows_per_batch=recipe.batch.micro_batch * device.mesh["fsdp"],
                                 data_config=recipe.data)
    # The longest batch decides whether the run fits; compiling it here is compiling what the loop then runs. No weight
    # has been read so far.
    longest = learned.shapes()[0]
    with waiting("compiling the step"):
        needs = beside_frozen(learned, request, device, engine.inspect(learned.blank(longest)))
    program: ProgramName = "step"
    if limit := needs["step"].limit_bytes:  # a compiler that refused names the limit that it kept to
        device = replace(device, memory_limit_bytes=limit, memory_limit_source="the compiler")
    # By a formula, so that it decides only where it says no.
    if TEACHER in needs and judge(needs["step"], device).fits and not judge(needs[TEACHER], device).fits:
        program = TEACHER
    return TrainSetup(
        loaded=loaded, data=resolved.data, weights=resolved.weights, tokenizer=resolved.tokenizer,
        template=resolved.template, shape=resolved.shape, learned=learned, registered=registered, engine=engine,
        device=device, device_check=device_check, held_out=held_out,
        schedule=Schedule.of(loaded.recipe.training), request=request, longest_batch=longest, program=program,
        inspection=needs[program], verdict=judge(needs[program], device))


def _counted(loaded: LoadedRecipe, steps: int) -> LoadedRecipe:
    """The recipe with the steps that its epochs are, now that the rows are known.

    Raises `RequestError` where they are too few for the warm-up.
    """
    epochs = loaded.recipe.training.epochs
    if loaded.recipe.training.steps:
        return loaded
    return with_counted_steps(loaded, steps, f"{steps}, which {epochs:g} epochs of these rows are")
