"""From a recipe and a target to what an engine is asked: the programs of the run, each with its longest batch."""

from workings.config.algorithms import RolloutAlgorithm
from workings.config.recipe import Recipe
from workings.engines.base import (
    EngineRequest,
    GenerationShape,
    MeshShape,
    ProgramName,
    ProgramShape,
    ProgramShapes,
)
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape

MAX_PROMPTS = 128
"""Prompts that an engine answers at a time, however many it is given."""


def mesh_of(recipe: Recipe, target: Target) -> MeshShape:
    """The mesh of this target's devices.

    Raises:
        RequestError: a mesh that does not divide the devices.
    """
    tp = recipe.mesh.tp
    fsdp = max(1, target.devices // tp) if recipe.mesh.fsdp == "auto" else recipe.mesh.fsdp
    if fsdp < 1 or target.devices % (fsdp * tp):
        raise RequestError(f"mesh.fsdp x mesh.tp = {fsdp} x {tp} = {fsdp * tp} on {target.name}",
                           f"a product that divides its {target.devices} devices", "mesh.fsdp=auto mesh.tp=1")
    return MeshShape(fsdp, tp)


def planned_mesh(recipe: Recipe, target: Target) -> MeshShape:
    """`mesh_of`, but of one device on a CPU, whatever the recipe says: so it is planned there."""
    return MeshShape(1, 1) if target.platform == "cpu" else mesh_of(recipe, target)


def longest_batch(recipe: Recipe, fsdp: int) -> BatchShape:
    """The largest batch that this recipe can make."""
    return BatchShape(recipe.batch.accumulation, recipe.batch.micro_batch * fsdp, recipe.data.max_length)


def programs_of(recipe: Recipe, fsdp: int) -> ProgramShapes:
    """What this run computes and could die in: updates, what they are made from, held-out batches, answers to items.

    The longest prompt is not known without data. One that completions are drawn of leaves them room in the longest row;
    an item has at most the tokens of that row.
    """
    step = longest_batch(recipe, fsdp)
    programs: dict[ProgramName, ProgramShape] = {"step": step}
    algorithm, evaluation = recipe.algorithm, recipe.evaluation
    if isinstance(algorithm, RolloutAlgorithm):
        programs["drawing"] = GenerationShape(min(recipe.completions_of_a_rollout(fsdp), MAX_PROMPTS),
                                              recipe.data.max_length - algorithm.max_new_tokens,
                                              algorithm.max_new_tokens)
        if algorithm.updates > 1:
            # The first update says itself how likely the model finds what it drew; those after it are asked before.
            programs["log_probs"] = step
    if recipe.learns_from_pairs:
        # The reference is asked about the same batches, before the first step, beside the state that is trained.
        programs["log_probs"] = step
    if evaluation.traces != "none":
        # Held-out batches are single: only updates accumulate.
        programs["evaluation"] = step._replace(accumulation=1)
    if evaluation.items != "none":
        # The samples of one item are answered together, however many they are.
        prompts = max(evaluation.samples, min(evaluation.batch_size, MAX_PROMPTS))
        programs["generation"] = GenerationShape(prompts, recipe.data.max_length, evaluation.max_new_tokens)
    return programs


def check_context(recipe: Recipe, shape: ModelShape) -> None:
    """Raise `RequestError` for rows that may be longer than what the model was made for."""
    if recipe.data.max_length > shape.context:
        raise RequestError(f"data.max_length: {recipe.data.max_length}",
                           f"at most the model's context of {shape.context} tokens", f"data.max_length={shape.context}")


def engine_request(recipe: Recipe, shape: ModelShape, target: Target) -> EngineRequest:
    """What the engine is asked for on this target.

    Raises:
        RequestError: rows longer than the model's context, heads that the mesh does not divide, or completions that do
            not make whole groups.
    """
    check_context(recipe, shape)
    if shape.heads % recipe.mesh.tp:
        raise RequestError(f"mesh.tp: {recipe.mesh.tp} with {shape.heads} heads", "a tp that divides the heads",
                           "mesh.tp=1")
    fsdp, _ = mesh_of(recipe, target)
    recipe.require_complete_groups(fsdp, f"on {target.name}")
    return EngineRequest.of(recipe, shape, device=target.platform)
