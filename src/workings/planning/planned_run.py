"""A recipe's run on a target: the request to its engine, the mesh, and the programs of the run with their shapes."""

from dataclasses import dataclass, replace

from workings.config.recipe import Recipe
from workings.engines import base
from workings.engines.hardware_probe import cpu_memory
from workings.engines.prefill import MAX_PROMPTS
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.ways.parts.rollout_batch import rollout_way


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A recipe's run on a target."""

    recipe: Recipe
    request: base.EngineRequest
    target: Target
    mesh: base.MeshShape
    programs: base.ProgramShapes
    """All programs of the run, each with its largest shape over all devices."""
    device_bytes: int
    """Memory of one device that the run may use."""

    @classmethod
    def on_target(cls, recipe: Recipe, shape: ModelShape, target: Target,
                  engine: base.PlanningEngine | None = None) -> "PlannedRun":
        """The run of a model of this shape on a target; ``engine``: would run there, None if it cannot plan.

        Raises `RequestError` as `engine_request` and `mesh_of`.
        """
        split_frozen = engine is None or engine.splits_frozen
        request = replace(engine_request(recipe, shape, target), split_frozen=split_frozen)
        mesh = mesh_of(recipe, target)
        processes = mesh.row_devices if getattr(engine, "process_per_device", False) else 1
        return cls(recipe=recipe, request=request, target=target, mesh=mesh,
                   device_bytes=target_memory_limit(target, engine)[0],
                   programs=programs_of(recipe, mesh.row_devices, MAX_PROMPTS * processes))

    @property
    def step(self) -> BatchShape:
        """The largest batch of an update."""
        return BatchShape(*self.programs["step"])

    def largest_shape(self, program: base.ProgramName) -> base.ProgramShape:
        """The largest shape of a program; a teacher reads the batches of the step."""
        return self.step if program == "teacher" else self.programs[program]


def target_memory_limit(target: Target, engine: base.PlanningEngine | None) -> tuple[int, str]:
    """Bytes of one device that a run may use, and the source of the number; ``engine``: None if it cannot plan."""
    if target.platform == "cpu":
        return cpu_memory()
    return engine.usable_memory(target) if engine is not None else (target.memory_bytes, target.memory_source)


def mesh_of(recipe: Recipe, target: Target) -> base.MeshShape:
    """The recipe's mesh on this target. Raises `RequestError` if it does not divide the target's devices."""
    asked = recipe.mesh
    fsdp = max(1, target.devices // (asked.tp * asked.replicate)) if asked.fsdp == "auto" else asked.fsdp
    mesh = base.MeshShape(fsdp, asked.tp, asked.replicate)
    if target.platform == "cpu" and mesh.devices > 1:
        raise RequestError(f"{mesh.text()} needs {mesh.devices} devices, and a cpu is one", "one device",
                           " ".join(f"mesh.{axis}=1" for axis in mesh.axes()))
    if fsdp < 1 or target.devices % mesh.devices:
        one_copy = " mesh.replicate=1" if mesh.replicate > 1 else ""
        raise RequestError(f"{mesh.text()} does not divide the devices of {target.name}",
                           f"a product that divides {target.devices}", f"mesh.fsdp=auto mesh.tp=1{one_copy}")
    return mesh


def longest_batch(recipe: Recipe, devices: int) -> BatchShape:
    """The largest batch that this recipe can make; ``devices``: number of devices that share its rows."""
    return BatchShape(recipe.batch.accumulation, recipe.batch.micro_batch * devices, recipe.data.max_length)


def programs_of(recipe: Recipe, devices: int, most_prompts: int = MAX_PROMPTS) -> base.ProgramShapes:
    """Programs of this run that may need the most memory, with their largest shapes over all devices.

    ``devices``: number of devices that share rows; ``most_prompts``: prompts that they answer at a time together.
    """
    step = longest_batch(recipe, devices)
    evaluation = recipe.evaluation
    programs: dict[base.ProgramName, base.ProgramShape] = {"step": step}
    if recipe.algorithm.examples == "prompts":
        way = rollout_way(recipe)
        # The longest prompt is not known without data: the longest row holds prompt and completion.
        programs["drawing"] = base.GenerationShape(min(step.all_rows * way.updates, most_prompts),
                                                   recipe.data.max_length - way.max_new_tokens, way.max_new_tokens)
        # The first update computes the log probabilities of the completions itself; later ones need them before.
        if way.updates > 1:
            programs["log_probs"] = step
    if recipe.algorithm.reads_reference_first:
        programs["log_probs"] = step
    if evaluation.traces != "none":
        programs["evaluation"] = step._replace(accumulation=1)
    if evaluation.items != "none":
        # All samples of one item are generated together.
        prompts = max(evaluation.samples, min(evaluation.batch_size, most_prompts))
        # Without data the longest prompt is unknown, but no prompt is longer than the longest row.
        programs["generation"] = base.GenerationShape(prompts, recipe.data.max_length, evaluation.max_new_tokens)
    return programs


def check_context(recipe: Recipe, shape: ModelShape) -> None:
    """Raises `RequestError` for rows that may be longer than the model's context."""
    if recipe.data.max_length > shape.context:
        raise RequestError(f"data.max_length: {recipe.data.max_length} is longer than the model's context",
                           f"at most {shape.context} tokens", f"data.max_length={shape.context}")


def engine_request(recipe: Recipe, shape: ModelShape, target: Target) -> base.EngineRequest:
    """The request to the engine of this target.

    Raises `RequestError` for rows longer than the model's context, heads that the mesh does not divide, or completions
    that do not make whole groups.
    """
    check_context(recipe, shape)
    if shape.heads % recipe.mesh.tp:
        raise RequestError(f"mesh.tp: {recipe.mesh.tp} does not divide the model's {shape.heads} heads",
                           "a tp that divides the heads", "mesh.tp=1")
    # The number of devices decides the number of rows of an update.
    recipe.algorithm.check_devices(recipe, mesh_of(recipe, target).row_devices, f"on {target.name}")
    return base.EngineRequest.of(recipe, shape, device=target.platform)
