"""Prepares a run: reads and checks data, tokenizer, model shape and device, and compiles the step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from workings.config.load import LoadedRecipe
from workings.data.batches import fixed_batches
from workings.data.rows import build_rows, prompt_digest
from workings.engines.base import Engine, EngineRequest, Inspection, MeshShape, ProgramName, ShardSavingEngine
from workings.engines.checkpoint_files import NonTextWeights, find_non_text_weights
from workings.engines.registry import RegisteredEngine, find_engine
from workings.errors import RequestError
from workings.evaluation.settings import EvaluationSettings, settings_of
from workings.hardware.catalog import Target, targets
from workings.hardware.device import DeviceFacts, row_devices
from workings.inputs.datasets import RunData
from workings.inputs.resolve import ResolvedRun, resolve
from workings.models.batch import Batch, BatchShape
from workings.planning.further_memory import TEACHER, next_to_sampler, sampler_parts, with_frozen_models
from workings.planning.plan import estimate
from workings.planning.planned_run import PlannedRun, check_context
from workings.planning.search import with_counted_steps
from workings.planning.verdict import Verdict, memory_verdict
from workings.record.progress import slow_operation
from workings.scoring.items import Item
from workings.scoring.scorers import scorer_version
from workings.ways.parts.training_data import TrainingData, prepare_data


@dataclass(frozen=True, kw_only=True)
class TrainSetup(ResolvedRun):
    """A run that could start: a resolved recipe, its rows, and an engine that has compiled the step."""

    training_data: TrainingData
    registered: RegisteredEngine
    engine: Engine
    device: DeviceFacts
    device_check: Mapping[str, Any]
    held_out: list[Batch]
    evaluation: EvaluationSettings | None
    """Evaluation settings of the items; None without items."""
    request: EngineRequest
    """The request by which the engine was opened."""
    longest_batch: BatchShape
    """The batch that decides whether the run fits; its rows are those of all devices."""
    program: ProgramName
    """The program that decides whether the run fits: the step, or the teacher's if the step alone fits."""
    inspection: Inspection
    """Memory of that program: the compiler's numbers for the run's own step, or an estimate for the teacher."""
    verdict: Verdict

    @property
    def questions(self) -> list[Item]:
        """Items whose answers are logged at each evaluation during training."""
        # Without items nothing reads the number of samples, so that a recipe that gives it is refused.
        return self.data.items[:self.recipe.evaluation.samples] if self.data.items else []

    @property
    def watched_items(self) -> list[Item]:
        """Items that are answered and scored at each evaluation during training."""
        recipe = self.recipe
        if self.data.items and (recipe.algorithm.examples == "prompts" or recipe.checkpoint.scores_items):
            return self.data.items[:recipe.evaluation.items_during_training]
        return []

    @cached_property
    def non_text_weights(self) -> NonTextWeights | None:
        """Non-text weights in the folder of weights, which must exist; None if it holds text weights alone."""
        return find_non_text_weights(self.weights.directory, self.shape) if self.weights.directory else None

    @cached_property
    def trained_items(self) -> list[str]:
        """Ids of held-out items whose question is in the training data as well: their answers measure nothing."""
        digests = self.training_data.question_digests()
        return [item.id for item in self.data.items if prompt_digest(item.prompt) in digests]


def prepare(loaded: LoadedRecipe, data: RunData | None = None) -> TrainSetup:
    """Prepares and checks a run: cheap checks first, the device and the compiler last. Raises `RequestError`."""
    recipe = loaded.recipe
    with slow_operation(f"loading the engine {recipe.engine}"):
        registered = find_engine(recipe.engine)
    with slow_operation("reading the data"):
        # Without tensors, which are downloaded only for a run that fits.
        resolved = resolve(loaded, data, tensors=False)
        check_context(recipe, resolved.shape)
    evaluation = settings_of(recipe) if resolved.data.items else None
    if evaluation is not None:
        scorer_version(evaluation.scorer)  # refuse a missing library now, not after training
    request = EngineRequest.of(recipe, resolved.shape, weights=resolved.weights.directory)
    with slow_operation(f"opening the device with the engine {recipe.engine}"):
        engine = registered.engine.open(request)
        if recipe.checkpoint.sharded and not isinstance(engine, ShardSavingEngine):
            raise RequestError(f"engine: {recipe.engine} does not write sharded checkpoints",
                               "an engine that does: jax, torch or tunix", "checkpoint.sharded=false")
        device = engine.describe()
        # It runs one kernel, because a device that is listed may still fail.
        device_check = engine.check_device()
    with slow_operation("preparing the training data"):
        # The number of devices over which rows are split (`mesh.fsdp: auto`) is known once the engine is open.
        training_data = prepare_data(resolved, engine)
    if not recipe.training.steps:
        loaded = with_counted_steps(loaded, training_data.steps, f"{training_data.steps} = {recipe.training.epochs:g} "
                                    "epochs of these rows")
    held_out: list[Batch] = []
    if resolved.data.held_out:
        held_out_rows = build_rows(resolved.data.held_out, resolved.tokenizer, resolved.template, recipe.data)
        held_out = fixed_batches(held_out_rows, rows_per_batch=recipe.batch.micro_batch * row_devices(device.mesh),
                                 data_config=recipe.data)
    # The longest batch decides whether the run fits. Training runs the program that is compiled here.
    longest = training_data.longest()
    with slow_operation("compiling the step"):
        planned = PlannedRun(recipe=loaded.recipe, request=request, target=target_here(device),
                             mesh=MeshShape.of(device.mesh), programs={"step": longest.shape},
                             device_bytes=device.memory_limit_bytes)
        inspections = with_frozen_models(planned, {"step": engine.inspect(longest)},
                                         training_data.teacher, lambda teacher: estimate(teacher, "log_probs"))
    # A compiler that refuses the step reports its limit.
    if limit := inspections["step"].limit_bytes:
        device = replace(device, memory_limit_bytes=limit, memory_limit_source="the compiler")
    device_without_sampler = next_to_sampler(device, sampler_parts(loaded.recipe, resolved.shape, device))
    verdicts = {name: memory_verdict(inspection, device_without_sampler) for name, inspection in inspections.items()}
    # The teacher's memory is an estimate, so it decides only if the step alone would fit.
    program: ProgramName = "step"
    if TEACHER in verdicts and verdicts["step"].fits and not verdicts[TEACHER].fits:
        program = TEACHER
    return TrainSetup(
        loaded=loaded, data=resolved.data, weights=resolved.weights, tokenizer=resolved.tokenizer,
        template=resolved.template, shape=resolved.shape, training_data=training_data, registered=registered,
        engine=engine, device=device, device_check=device_check, held_out=held_out, evaluation=evaluation,
        request=request, longest_batch=longest.shape, program=program,
        inspection=inspections[program], verdict=verdicts[program])


def target_here(device: DeviceFacts) -> Target:
    """A run's device as a planning target: its row of the catalog, or one made from its facts."""
    # The device reports the engine's share of its memory. A target has the whole memory, and `plan` takes the share.
    memory_bytes = int(device.memory_limit_bytes / device.memory_share)
    # The catalog has one row for all CPUs; accelerators are identified by kind.
    known = [row for row in targets().values() if row.platform == device.platform
             and (row.platform == "cpu" or row.kind == device.kind)]
    row = next((row for row in known if row.devices == device.count), known[0] if known else None)
    facts: dict[str, Any] = {"devices": device.count, "chips": device.count, "usable_gib": memory_bytes / 2**30,
                             "usable_source": device.memory_limit_source}
    if row is not None and row.devices == device.count:
        return replace(row, **facts)
    # Two cards are twice the row of one. Another number of TPU chips is another slice, with another topology.
    if row is not None and device.platform != "tpu":
        return replace(row, name=f"{device.count} x {row.name}", **facts)
    return Target(name=f"{device.count} x {device.kind}", platform=cast(Any, device.platform), kind=device.kind,
                  source="the device itself", **facts)
