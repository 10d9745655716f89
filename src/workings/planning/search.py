"""The nearest plan that fits: combinations of changes in the order of how little they change what was asked.

Each combination is estimated by formula, corrected by what the compiler said so far; the first that comes under the
limit is compiled whole. If the compiler refuses it, the search goes on behind it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from math import gcd
from typing import get_args

from workings.config.algorithms import Distill, TeacherAlgorithm
from workings.config.algorithms.base import TeacherPrecision
from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, ProgramName
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target
from workings.models.shape import ModelShape
from workings.planning.answering import fewer_answers, shorter_completions, smaller_rollouts
from workings.planning.changes import Words, changed, difference
from workings.planning.frozen import TeacherModel, teacher_request, with_reference, with_teacher
from workings.planning.plan import Nearest, Plan, estimate, make_plan
from workings.planning.request import engine_request, mesh_of, planned_mesh, programs_of
from workings.planning.verdict import MARGINAL_SHARE

# Each one may take from seconds to minutes.
COMPILES = 4
"""Candidates that the compiler is asked about before the search gives up."""


def _all_devices(recipe: Recipe, target: Target) -> Words:
    """All devices; fewer rows on each where they come out even, so that the global batch stays."""
    if target.platform == "cpu":
        return {}
    fsdp, tp = mesh_of(recipe, target)
    more = target.devices // (fsdp * tp)
    if more == 1:
        return {}
    batch = recipe.batch
    # The rows do not divide: all devices are used nevertheless, and the global batch grows.
    if batch.micro_batch * batch.accumulation % more:
        return {"mesh.fsdp": "auto"}
    # Accumulation is given up before rows are: it keeps a second copy of the gradients.
    fewer = gcd(batch.accumulation, more)
    if recipe.learns_from_pairs and batch.micro_batch * fewer // more % 2:
        return {"mesh.fsdp": "auto"}
    return {"mesh.fsdp": "auto", "batch.accumulation": batch.accumulation // fewer,
            "batch.micro_batch": batch.micro_batch * fewer // more}


def _attention(recipe: Recipe, target: Target) -> Words:
    # On a CPU `auto` means plain attention, which holds the whole square of scores.
    wanted = "chunked" if target.platform == "cpu" else "auto"
    is_plain = recipe.memory.attention in ("plain", *(["auto"] if target.platform == "cpu" else []))
    return {"memory.attention": wanted} if is_plain else {}


def _loss_chunk(recipe: Recipe, target: Target) -> Words:
    return {"memory.loss_chunk": 128} if recipe.memory.loss_chunk == 0 or recipe.memory.loss_chunk > 128 else {}


def _remat(recipe: Recipe, target: Target) -> Words:
    return {"memory.remat": "layer"} if recipe.memory.remat == "none" else {}


def _micro_batch(recipe: Recipe, target: Target) -> Words:
    """The global batch stays: half the rows at a time, twice as often."""
    rows = recipe.batch.micro_batch
    # Half of it holds whole pairs, too.
    if rows % (4 if recipe.learns_from_pairs else 2):
        return {}
    return {"batch.micro_batch": rows // 2, "batch.accumulation": recipe.batch.accumulation * 2}


def _no_accumulation(recipe: Recipe, target: Target) -> Words:
    """The global batch stays: all rows at once, so that no second copy of the gradients is kept."""
    batch = recipe.batch
    return {"batch.micro_batch": batch.micro_batch * batch.accumulation, "batch.accumulation": 1} \
        if batch.accumulation > 1 else {}


def _moments(recipe: Recipe, target: Target) -> Words:
    return {"precision.moments": "bf16"} if recipe.precision.moments == "fp32" \
        and recipe.optimizer.name == "adamw" else {}


def _rounding(recipe: Recipe, target: Target) -> Words:
    return {"precision.rounding": "stochastic"} if recipe.precision.rounding == "master_fp32" else {}


def _teacher(recipe: Recipe, target: Target) -> Words:
    if not isinstance(recipe.algorithm, TeacherAlgorithm):
        return {}
    fewer = dict(pairwise(get_args(TeacherPrecision))).get(recipe.algorithm.teacher_precision)
    return {"algorithm.teacher_precision": fewer} if fewer else {}


def _optimizer(recipe: Recipe, target: Target) -> Words:
    if recipe.optimizer.name == "adafactor":
        return {}
    words: Words = {"optimizer": {"name": "adafactor", "weight_decay": recipe.optimizer.weight_decay,
                                  "clip_norm": recipe.optimizer.clip_norm}}
    return words | ({"precision.moments": "fp32"} if recipe.precision.moments == "bf16" else {})


def _parameters(recipe: Recipe, target: Target) -> Words:
    if recipe.precision.parameters != "fp32":
        return {}
    words = {"precision.parameters": "bf16"}  # frozen weights are never updated, so nothing rounds
    return words | ({"precision.rounding": "stochastic"} if recipe.method.name == "full" else {})


def _method(recipe: Recipe, target: Target) -> Words:
    """Adapters beside frozen weights, then those in four bits."""
    method = recipe.method
    if method.name == "qlora":
        return {}
    words: Words = {"method": {"name": "lora"}} if method.name == "full" else {
        "method": method.model_dump(mode="json", exclude_defaults=True) | {"name": "qlora"}}
    # Adapters are trained in float32, so there is nothing to round at random.
    return words | ({"precision.rounding": "nearest"} if recipe.precision.rounding != "nearest" else {})


Change = Callable[[Recipe, Target], Words]

LADDER: tuple[tuple[Change, int], ...] = (
    (_method, 2), (_parameters, 1), (_optimizer, 1), (_rounding, 1), (_moments, 1), (_teacher, 3),
    # Six halvings take 64 rows to one.
    (_micro_batch, 6), (_no_accumulation, 1),
    (_remat, 1), (_loss_chunk, 1), (_attention, 1), (_all_devices, 1))
"""Changes and how often each may be made: first what changes the training most, last what only uses more devices."""


def candidates(recipe: Recipe, target: Target, shape: ModelShape) -> Iterator[Recipe]:
    """Every combination of changes, the least first: one rung less is worth all rungs below it."""
    ladder = (*LADDER, (_table_on_host, 1)) if _takes_table_on_host(recipe, shape) else LADDER
    return (candidate for candidate in _combinations(recipe, target, ladder) if candidate != recipe)


def _combinations(recipe: Recipe, target: Target, ladder: Sequence[tuple[Change, int]]) -> Iterator[Recipe]:
    """The recipe with every combination of changes of a ladder.

    All combinations of the lower rungs come before the next change of the first one. A change that changes nothing ends
    its rung: what is below it has been given already.
    """
    if not ladder:
        yield recipe
        return
    (change, most), *below = ladder
    yield from _combinations(recipe, target, below)
    for _ in range(most):
        changes = change(recipe, target)
        if not changes:
            return
        recipe = changed(recipe, changes)
        yield from _combinations(recipe, target, below)


def _table_on_host(recipe: Recipe, target: Target) -> Words:
    return {"memory.per_layer_embeddings": "host"} if recipe.memory.per_layer_embeddings == "device" else {}


def _takes_table_on_host(recipe: Recipe, shape: ModelShape) -> bool:
    """Whether the model has per-layer embeddings, and its engine does not refuse to leave them on the host."""
    engine = find_planning_engine(recipe.engine)
    if not shape.per_layer_width or engine is None:
        return False
    asked, moved = (EngineRequest.of(changed(recipe, {"memory.per_layer_embeddings": place}), shape)
                    for place in ("device", "host"))
    return len(engine.refusals(moved)) == len(engine.refusals(asked))


def for_drawing(recipe: Recipe, target: Target, shape: ModelShape) -> Iterator[Recipe]:
    """Candidates where drawing completions is what does not fit, the least change first.

    The ladder's changes help as far as they make smaller what lies in memory while completions are drawn.
    """
    fsdp, _ = planned_mesh(recipe, target)
    return chain(smaller_rollouts(recipe, fsdp), candidates(recipe, target, shape), shorter_completions(recipe))


def plan_with_nearest(recipe: Recipe, shape: ModelShape, target: Target, *, search: bool = True,
                      teacher: TeacherModel | None = None) -> Plan:
    """The plan as asked; where it does not fit, with the nearest one that does, if the ladder has one."""
    asked = make_plan(recipe, shape, target, teacher=teacher)
    if asked.verdict.fits or not search:
        return asked
    way = nearest(recipe, shape, target, asked, teacher)
    if way is None:
        return replace(asked, remarks=(*asked.remarks, "no plan of the search fits: a smaller model, shorter rows "
                                       "or a larger machine are left", *_not_searched(recipe)))
    way_out = f"nearest plan that fits ({way.source}): " + " ".join(way.overrides)
    return replace(asked, nearest=way, remarks=(*asked.remarks, way_out, *_grown(asked, way), *_another(way)))


def _not_searched(recipe: Recipe) -> list[str]:
    return ["not searched: fewer completions an update, smaller groups, and shorter completions together with another "
            "change"] if recipe.uses_rollouts else []


def _another(nearest: Nearest) -> list[str]:
    """What is said of a plan that trains other weights than was asked for."""
    return ["that is another experiment: it trains adapters beside frozen weights, and its result says little about "
            "training all of them"] if any(word.startswith("method") for word in nearest.overrides) else []


def _grown(asked: Plan, nearest: Nearest) -> list[str]:
    before, after = asked.batch.all_rows, nearest.rows
    return [f"its global batch has {after} rows instead of {before}: devices do not share a row"] \
        if before != after else []


def nearest(recipe: Recipe, shape: ModelShape, target: Target, asked: Plan,
            teacher: TeacherModel | None = None) -> Nearest | None:
    """The first candidate that the compiler (or, for a GPU, the estimate) lets through."""
    tried: list[str] = []
    limit = asked.verdict.limit_bytes
    # Asked once, because looking an engine up reads the entry points of all packages.
    engine = find_planning_engine(recipe.engine)
    needs_of = partial(estimated_programs, shape=shape, target=target, teacher=teacher,
                       split_frozen=engine is None or engine.splits_frozen)
    # Formulas are off by a factor that mostly carries over from one candidate to the next.
    factor = asked.verdict.peak_bytes / max(1, *needs_of(recipe).values())
    for offered in _pool(recipe, target, shape, asked):
        # A tenth stays free here already, so that fewer compilations end in a refusal.
        candidate = _answering_within(offered, MARGINAL_SHARE * limit / factor, needs_of)
        if candidate is None:
            continue
        guess = max(needs_of(candidate).values())
        # Not explained: that could compile two shallow models more for every refusal.
        plan = make_plan(candidate, shape, target, explained=False, teacher=teacher)
        words = difference(recipe, candidate)
        if plan.verdict.fits:
            return Nearest(overrides=words, rows=plan.batch.all_rows, peak_bytes=plan.verdict.peak_bytes,
                           limit_bytes=plan.verdict.limit_bytes, source=plan.verdict.source, tried=tuple(tried))
        tried.append(" ".join(words))
        # Never lowered: each compilation costs time, and a formula that was too low once may be so again.
        factor = max(factor, plan.verdict.peak_bytes / max(1, guess))
        if len(tried) == COMPILES:
            return None
    return None


def _answering_within(recipe: Recipe, room: float,
                      needs_of: Callable[[Recipe], Mapping[ProgramName, int]]) -> Recipe | None:
    """The recipe where it needs at most this many bytes by formula, with fewer answers at a time if that suffices.

    None where its other programs need more: how items are answered changes nothing of the training, so it comes before
    every other change and never instead of one.
    """
    needs = dict(needs_of(recipe))
    if max(needs.values()) <= room:
        return recipe
    if needs.pop("generation", 0) <= room or max(needs.values()) > room:
        return None
    return next((fewer for fewer in fewer_answers(recipe) if needs_of(fewer)["generation"] <= room), None)


def _pool(recipe: Recipe, target: Target, shape: ModelShape, asked: Plan) -> Iterator[Recipe]:
    """Candidates for whichever program needs the most."""
    # Where only answering does not fit, training need not change at all; often the step does not fit either.
    if asked.program == "generation":
        return chain(fewer_answers(recipe), candidates(recipe, target, shape))
    return (for_drawing if asked.program == "drawing" else candidates)(recipe, target, shape)


def estimated(recipe: Recipe, shape: ModelShape, target: Target, teacher: TeacherModel | None = None, *,
              split_frozen: bool = True) -> int:
    """Closed-form peak of a recipe on a target, bytes per device: of the program that needs the most."""
    return max(estimated_programs(recipe, shape, target, teacher, split_frozen=split_frozen).values())


def estimated_programs(recipe: Recipe, shape: ModelShape, target: Target, teacher: TeacherModel | None = None, *,
                       split_frozen: bool = True) -> dict[ProgramName, int]:
    """Closed-form peak of each program of a recipe on a target, bytes per device.

    ``split_frozen``: as of `EngineRequest`.
    """
    # A CPU is planned as one device, and a larger mesh of the recipe would be refused.
    asked = changed(recipe, {"mesh.fsdp": 1}) if target.platform == "cpu" else recipe
    request = replace(engine_request(asked, shape, target), split_frozen=split_frozen)
    mesh = planned_mesh(recipe, target)
    programs = programs_of(recipe, mesh.fsdp)
    needs = with_reference(request, mesh, {
        name: estimate(request, size, mesh, target, name) for name, size in programs.items()})
    if teacher is not None and isinstance(recipe.algorithm, TeacherAlgorithm):
        theirs = teacher_request(request, teacher, recipe.algorithm.teacher_precision)
        said = estimate(theirs, programs["step"], mesh, target, "log_probs")
        needs = with_teacher(request, theirs, mesh, needs, said, stays=isinstance(recipe.algorithm, Distill))
    return {name: one.peak_bytes for name, one in needs.items()}
