"""Search for the nearest plan that fits: the recipe with the fewest and mildest changes that save memory.

Combinations of the changes in `LADDER` are tried from the mildest to the most intrusive. A formula estimates each one,
corrected by the compiler's answers so far. The first combination below the limit is compiled; if it does not fit, the
search continues with the next one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from math import gcd
from typing import Any, get_args

from workings.config.algorithm import TeacherPrecision
from workings.config.load import LoadedRecipe, check_recipe
from workings.config.overrides import set_key
from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, PlanningEngine, ProgramName
from workings.engines.prefill import MAX_PROMPTS
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target
from workings.models.shape import ModelShape
from workings.planning.further_memory import with_frozen_models
from workings.planning.plan import Nearest, Plan, estimate, make_plan
from workings.planning.planned_run import PlannedRun, mesh_of
from workings.planning.verdict import MARGINAL_SHARE
from workings.record.values import leaves
from workings.ways.parts.rollout_batch import rollout_way
from workings.ways.parts.teacher import TeacherModel

KeyValues = dict[str, Any]
"""Dotted keys and their values."""
Change = Callable[[Recipe, Target], KeyValues]
"""Gives the keys of a recipe to change for a target; empty if the change would not save memory."""
MAX_COMPILATIONS = 4
"""Candidates that are compiled before the search gives up; each may take minutes."""


def with_changes(recipe: Recipe, changes: Mapping[str, Any], origin: str = "a candidate of the search") -> Recipe:
    """The recipe with dotted keys set; ``origin`` names it in errors."""
    values = recipe.model_dump(mode="json", exclude_unset=True)
    for dotted, value in changes.items():
        set_key(values, dotted, value, origin)
    return check_recipe(values, origin)


def with_counted_steps(loaded: LoadedRecipe, steps: int, explanation: str) -> LoadedRecipe:
    """A recipe that counts epochs, with its number of steps; ``explanation`` says how they follow from the epochs."""
    recipe = with_changes(loaded.recipe, {"training.steps": steps}, f"{loaded.origin}, {steps} steps")
    return replace(loaded, recipe=recipe, chosen=(*loaded.chosen, f"training.steps: {explanation}"))


def overrides_between(before: Recipe, after: Recipe) -> tuple[str, ...]:
    """The ``key=value`` overrides that turn one recipe into another."""
    old_values, new_values = (dict(leaves(recipe.model_dump(mode="json"))) for recipe in (before, after))
    sections = []
    for section in ("optimizer", "method"):  # the keys of another optimizer or method do not exist in the new one
        old, new = getattr(before, section), getattr(after, section)
        if old.name != new.name:
            values = {"name": new.name} | new.model_dump(mode="json", exclude_defaults=True)
            inside = ", ".join(f"{key}: {value}" for key, value in values.items())
            new_values = {key: value for key, value in new_values.items() if not key.startswith(f"{section}.")}
            sections.append(f"{section}={{{inside}}}")
    return (*(f"{key}={value}" for key, value in new_values.items() if old_values.get(key) != value), *sections)


def on_all_devices(recipe: Recipe, target: Target) -> KeyValues:
    """Uses all devices. The global batch stays the same if its rows can be divided evenly; otherwise it grows."""
    if target.platform == "cpu":
        return {}
    factor = target.devices // mesh_of(recipe, target).devices
    if factor == 1:
        return {}
    batch = recipe.batch
    # Accumulation is reduced before rows are: it keeps a second copy of the gradients. With four times the devices,
    # 2 micro batches of 6 rows become one of 3 rows a device.
    fewer = gcd(batch.accumulation, factor)
    rows, remainder = divmod(batch.micro_batch * fewer, factor)
    if remainder or rows % recipe.algorithm.rows_per_example:
        return {"mesh.fsdp": "auto"}
    return {"mesh.fsdp": "auto", "batch.accumulation": batch.accumulation // fewer, "batch.micro_batch": rows}


def _one_copy(recipe: Recipe, target: Target) -> KeyValues:
    """Splits the parameters over the devices of all copies; each device keeps its rows."""
    copies, fsdp = recipe.mesh.replicate, recipe.mesh.fsdp
    if copies == 1:
        return {}
    return {"mesh.replicate": 1, "mesh.fsdp": fsdp if fsdp == "auto" else copies * fsdp}


def _attention(recipe: Recipe, target: Target) -> KeyValues:
    """Replaces plain attention, which keeps the scores of all pairs of positions. On a CPU ``auto`` is plain."""
    if target.platform == "cpu":
        return {"memory.attention": "chunked"} if recipe.memory.attention in ("plain", "auto") else {}
    return {"memory.attention": "auto"} if recipe.memory.attention == "plain" else {}


def halved_micro_batch(recipe: Recipe, target: Target) -> KeyValues:
    """Takes half of the rows at a time, twice as often; the global batch stays the same."""
    rows = recipe.batch.micro_batch
    if rows % (2 * recipe.algorithm.rows_per_example):
        return {}
    return {"batch.micro_batch": rows // 2, "batch.accumulation": recipe.batch.accumulation * 2}


def _no_accumulation(recipe: Recipe, target: Target) -> KeyValues:
    """Takes all rows of the global batch at once, so that no second copy of the gradients is kept."""
    batch = recipe.batch
    if batch.accumulation == 1:
        return {}
    return {"batch.micro_batch": batch.micro_batch * batch.accumulation, "batch.accumulation": 1}


def _optimizer(recipe: Recipe, target: Target) -> KeyValues:
    if recipe.optimizer.name == "adafactor":
        return {}
    changes: KeyValues = {"optimizer": {"name": "adafactor", "weight_decay": recipe.optimizer.weight_decay,
                                        "clip_norm": recipe.optimizer.clip_norm}}
    # Factored moments are a few vectors, so their format saves nothing.
    if recipe.precision.moments == "bf16":
        changes["precision.moments"] = "fp32"
    return changes


def _parameters(recipe: Recipe, target: Target) -> KeyValues:
    if recipe.precision.parameters != "fp32":
        return {}
    if recipe.method.name == "full":
        return {"precision.parameters": "bf16", "precision.rounding": "stochastic"}
    return {"precision.parameters": "bf16"}  # frozen weights are never updated, so nothing is rounded


def _method(recipe: Recipe, target: Target) -> KeyValues:
    """Trains adapters of frozen weights (LoRA); the second time, stores these weights in four bits (QLoRA)."""
    method = recipe.method
    if method.name == "qlora":
        return {}
    changes: KeyValues = {"method": {"name": "lora"}}
    if method.name == "lora":
        changes["method"] = method.model_dump(mode="json", exclude_defaults=True) | {"name": "qlora"}
    # Adapters are trained in float32, so nothing is rounded.
    if recipe.precision.rounding != "nearest":
        changes["precision.rounding"] = "nearest"
    return changes


def _one_key(key: str, value: Any, helps: Callable[[Recipe], bool]) -> Change:
    return lambda recipe, target: {key: value} if helps(recipe) else {}


def smaller_teacher(recipe: Recipe, target: Target) -> KeyValues:
    """The next format of the recipe's teacher with fewer bits."""
    keys = recipe.algorithm.teacher_keys
    if keys is None:
        return {}
    with_fewer_bits = dict(pairwise(get_args(TeacherPrecision))).get(keys.teacher_precision)
    return {"algorithm.teacher_precision": with_fewer_bits} if with_fewer_bits else {}


LADDER: tuple[tuple[Change, int], ...] = (
    (_method, 2), (_parameters, 1), (_optimizer, 1),
    # Rounding to nearest would lose small updates of bf16 weights that have no fp32 master.
    (_one_key("precision.rounding", "stochastic", lambda recipe: recipe.precision.rounding == "master_fp32"), 1),
    # Adafactor's moments are small, and 8-bit moments are smaller than bf16.
    (_one_key("precision.moments", "bf16", lambda recipe: recipe.precision.moments == "fp32"
              and recipe.optimizer.name == "adamw"), 1),
    (smaller_teacher, 3),
    (halved_micro_batch, 6), (_no_accumulation, 1),
    (_one_key("memory.remat", "layer", lambda recipe: recipe.memory.remat == "none"), 1),
    # Chunks of fewer positions save little, and their products are too narrow for matrix units.
    (_one_key("memory.loss_chunk", 128, lambda recipe: not 0 < recipe.memory.loss_chunk <= 128), 1),
    (_attention, 1), (_one_copy, 1), (on_all_devices, 1))
"""Changes and how often each may be made. The first ones change the training most; the last only uses more devices."""
TABLE_TO_HOST = _one_key("memory.per_layer_embeddings", "host",
                         lambda recipe: recipe.memory.per_layer_embeddings == "device")


def candidates(recipe: Recipe, target: Target, shape: ModelShape) -> Iterator[Recipe]:
    """All combinations of changes, from the mildest to the most intrusive one."""
    ladder = (*LADDER, (TABLE_TO_HOST, 1)) if _can_move_table_to_host(recipe, shape) else LADDER
    return (candidate for candidate in _combinations(recipe, target, ladder) if candidate != recipe)


def _combinations(recipe: Recipe, target: Target, ladder: Sequence[tuple[Change, int]]) -> Iterator[Recipe]:
    """The recipe with every combination of a ladder's changes; of A and B: none, B, A, A with B."""
    if not ladder:
        yield recipe
        return
    (change, max_times), *below = ladder
    yield from _combinations(recipe, target, below)
    for _ in range(max_times):
        changes = change(recipe, target)
        if not changes:
            return
        recipe = with_changes(recipe, changes)
        yield from _combinations(recipe, target, below)


def _can_move_table_to_host(recipe: Recipe, shape: ModelShape) -> bool:
    """Whether the model has per-layer embeddings, and its engine can keep them in the host's memory."""
    engine = find_planning_engine(recipe.engine)
    if not shape.per_layer_width or engine is None:
        return False
    on_host = with_changes(recipe, {"memory.per_layer_embeddings": "host"})
    return not engine.refusals(EngineRequest.of(on_host, shape))


def fewer_answers(recipe: Recipe) -> Iterator[Recipe]:
    """Fewer prompts at a time for answers to items; neither training nor answers change."""
    prompts = min(recipe.evaluation.batch_size, MAX_PROMPTS) // 2
    while prompts >= 1:
        samples = min(recipe.evaluation.samples, prompts)
        yield with_changes(recipe, {"evaluation.batch_size": prompts, "evaluation.samples": samples})
        prompts //= 2


def plan_with_nearest(recipe: Recipe, shape: ModelShape, target: Target, *, search: bool = True,
                      teacher: TeacherModel | None = None) -> Plan:
    """The requested plan. If it does not fit, the result also has the nearest plan that does, if there is one."""
    requested = make_plan(recipe, shape, target, teacher=teacher)
    if requested.verdict.fits or not search:
        return requested
    nearest = find_nearest(recipe, shape, target, requested, teacher)
    if nearest is None:
        remarks = ["no plan of the search fits: a smaller model, shorter rows or a larger machine are left"]
        if recipe.algorithm.examples == "prompts":
            remarks.append("not searched: fewer completions an update, smaller groups, and shorter completions "
                           "together with another change")
        return replace(requested, remarks=(*requested.remarks, *remarks))
    return replace(requested, nearest=nearest,
                   remarks=(*requested.remarks, *nearest_remarks(nearest, requested.batch.all_rows)))


def nearest_remarks(nearest: Nearest, requested_rows: int) -> list[str]:
    """Sentences with the overrides of the nearest plan and their other consequences."""
    remarks = [f"nearest plan that fits ({nearest.source}): " + " ".join(nearest.overrides)]
    if nearest.rows != requested_rows:
        remarks.append(f"its global batch has {nearest.rows} rows instead of {requested_rows}: devices do not share a "
                       "row")
    if any(word.startswith("method") for word in nearest.overrides):
        remarks.append("that is another experiment: it trains adapters next to frozen weights, and its result says "
                       "little about training all of them")
    return remarks


def find_nearest(recipe: Recipe, shape: ModelShape, target: Target, requested: Plan,
                 teacher: TeacherModel | None = None) -> Nearest | None:
    """The first candidate that fits by its own plan, compiled if the engine can compile for the target."""
    compiled = 0
    limit = requested.verdict.limit_bytes
    engine = find_planning_engine(recipe.engine)
    estimate_peaks = partial(estimated_programs, shape=shape, target=target, teacher=teacher, engine=engine)
    # The compiled peak is the estimated one times a factor that is similar for all candidates.
    factor = requested.verdict.peak_bytes / max(1, *estimate_peaks(recipe).values())
    for changed_recipe in _candidates_for_program(recipe, target, shape, requested.program):
        # A tenth of the limit stays free, so that fewer compilations end in a refusal.
        candidate = _with_fewer_answers_if_needed(changed_recipe, MARGINAL_SHARE * limit / factor, estimate_peaks)
        if candidate is None:
            continue
        estimated_peak = max(estimate_peaks(candidate).values())
        plan = make_plan(candidate, shape, target, teacher=teacher)
        if plan.verdict.fits:
            return Nearest(overrides=overrides_between(recipe, candidate), rows=plan.batch.all_rows,
                           peak_bytes=plan.verdict.peak_bytes, limit_bytes=plan.verdict.limit_bytes,
                           source=plan.verdict.source)
        # Never lowered: each compilation costs time, and a formula that was too low once may be so again.
        factor = max(factor, plan.verdict.peak_bytes / max(1, estimated_peak))
        compiled += 1
        if compiled == MAX_COMPILATIONS:
            return None
    return None


def _with_fewer_answers_if_needed(recipe: Recipe, free_bytes: float,
                                  estimate_peaks: Callable[[Recipe], Mapping[ProgramName, int]]) -> Recipe | None:
    """The recipe if all its programs need at most this many bytes by formula; None if they need more.

    If only the answers to items need more, the result is the recipe with fewer answers at a time.
    """
    too_large = {name for name, peak in estimate_peaks(recipe).items() if peak > free_bytes}
    if not too_large:
        return recipe
    if too_large != {"generation"}:
        return None
    return next((fewer for fewer in fewer_answers(recipe) if estimate_peaks(fewer)["generation"] <= free_bytes), None)


def _candidates_for_program(recipe: Recipe, target: Target, shape: ModelShape, program: ProgramName
                            ) -> Iterator[Recipe]:
    """Candidates for a run whose ``program`` needs too much memory, the mildest change first."""
    changed_for_all_programs = candidates(recipe, target, shape)
    if program == "generation":
        return chain(fewer_answers(recipe), changed_for_all_programs)
    if program == "drawing":
        way, change = rollout_way(recipe), partial(with_changes, recipe)
        smaller_rollouts = way.smaller_rollouts(recipe, mesh_of(recipe, target).row_devices)
        shorter_completions = way.shorter_completions(recipe)
        return chain(map(change, smaller_rollouts), changed_for_all_programs, map(change, shorter_completions))
    return changed_for_all_programs


def estimated_programs(recipe: Recipe, shape: ModelShape, target: Target, teacher: TeacherModel | None = None, *,
                       engine: PlanningEngine | None = None) -> dict[ProgramName, int]:
    """Estimated peak of each program of a recipe on a target, in bytes per device; ``engine``: would run there."""
    # A CPU is planned as one device, and a larger mesh would be refused.
    if target.platform == "cpu":
        recipe = with_changes(recipe, {"mesh.fsdp": 1, "mesh.replicate": 1})
    run = PlannedRun.on_target(recipe, shape, target, engine)
    inspections = with_frozen_models(run, {name: estimate(run, name) for name in run.programs}, teacher,
                                     inspect=lambda teacher_run: estimate(teacher_run, "log_probs"))
    return {name: inspection.peak_bytes for name, inspection in inspections.items()}
