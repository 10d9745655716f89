"""`plan`: whether a recipe fits a machine, and why; the nearest recipe that does; and how long its run takes there."""

import re
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, Literal

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.data.named_sets import SHIPPED_SETS
from workings.engines.registry import find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import Target, find_target
from workings.hardware.memory import gib
from workings.inputs.datasets import ADDITION, ADDITION_ITEMS, ADDITION_TRACES
from workings.inputs.resolve import find_shape
from workings.models.shape import ModelShape
from workings.planning.calibration import LEAST_OPERATIONS, calibrated_throughput
from workings.planning.plan import Plan
from workings.planning.planned_run import PlannedRun, engine_request, mesh_of, target_memory_limit
from workings.planning.run_time import Throughput, estimate_run_time, step_operations, step_seconds
from workings.planning.search import estimated_programs, plan_with_nearest, with_counted_steps
from workings.record.number_text import duration
from workings.runs.choices import with_choices
from workings.ways.parts.teacher import TeacherModel, teacher_model, teacher_request

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds of the units in which a deadline is written."""


def with_time(plan: Plan, loaded: LoadedRecipe, shape: ModelShape, target: Target, own: Throughput | None = None,
          teacher: TeacherModel | None = None) -> Plan:
    """The plan with the seconds of its run; unchanged if no speed is known. ``own``: the speed as measured here."""
    recipe = loaded.recipe
    run = PlannedRun.on_target(recipe, shape, target, find_planning_engine(recipe.engine))
    seconds, how = step_seconds(run.request, plan.batch, target, run.mesh, own)
    if seconds is None:
        return plan
    if not recipe.training.steps:
        unknown = (f"training.epochs: {recipe.training.epochs:g} needs the data to count steps, and they are "
                   "not on this machine: the time is unknown")
        return replace(plan, step_seconds=seconds, step_time=how, remarks=(*plan.remarks, unknown))
    way, request_of_teacher = recipe.algorithm, None
    if teacher is not None and way.teacher_keys is not None:
        request_of_teacher = teacher_request(run.request, teacher, way.teacher_keys.teacher_precision)
    time = estimate_run_time(run, seconds, items=count_items(loaded), teacher=request_of_teacher)
    rows = count_rows(loaded) if time.reference_seconds or time.teacher_seconds else 0
    if rows:
        # `estimate_run_time` counts a batch per step, but each row is read once: 80 rows are 10 batches of 8.
        share_of_steps = min(1.0, ceil(rows / plan.batch.all_rows) / time.steps)
        teacher_share = 1.0 if way.asks_teacher_in_every_step else share_of_steps
        time = replace(time, reference_seconds=share_of_steps * time.reference_seconds,
                       teacher_seconds=teacher_share * time.teacher_seconds)
    return replace(plan, step_seconds=seconds, time=time, step_time=how)


def with_steps(loaded: LoadedRecipe, row_devices: int) -> LoadedRecipe:
    """The recipe with the maximum number of steps of its epochs; unchanged if the data are not on this machine."""
    recipe = loaded.recipe
    if recipe.training.steps:  # first, because counting reads the whole file
        return loaded
    rows = count_rows(loaded)
    if not rows:
        return loaded
    rows_per_step = recipe.batch.micro_batch * recipe.batch.accumulation * row_devices
    steps = ceil(recipe.training.epochs * rows / rows_per_step)
    packed = "" if recipe.data.packing == "none" else "; fewer with packing"
    return with_counted_steps(loaded, steps, f"at most {steps} = {recipe.training.epochs:g} epochs of {rows:,} rows"
                              + packed)


def count_rows(loaded: LoadedRecipe) -> int:
    """Number of rows of the recipe's traces or pairs; 0 if they are not on this machine."""
    return loaded.recipe.algorithm.rows_per_example * _count(loaded, loaded.recipe.data.traces, "traces")


def count_items(loaded: LoadedRecipe) -> int:
    """Number of evaluation items of the recipe; 0 without items, or if they are not on this machine."""
    name = loaded.recipe.evaluation.items
    return 0 if name == "none" else _count(loaded, name, "items")


def _count(loaded: LoadedRecipe, name: str, half: Literal["traces", "items"]) -> int:
    """Lines of a file, or entries of a shipped set or of one half of the additions; 0 if it is not on this machine."""
    path = loaded.path(name)
    if path.is_file():
        return sum(1 for line in path.read_text("utf-8").split("\n") if line.strip())
    if name == ADDITION:
        return ADDITION_TRACES if half == "traces" else ADDITION_ITEMS
    return SHIPPED_SETS[name].count if name in SHIPPED_SETS else 0


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``1h30m``. Raises `RequestError` for anything else, and for zero."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if "".join(map("".join, parts)) != text or seconds <= 0:
        raise RequestError(f"--deadline {text} is no length of time", "a time such as 9h, 90m or 1h30m",
                           "--deadline 9h")
    return seconds


def with_deadline(plan: Plan, seconds: float) -> Plan:
    """The plan with a remark: whether its run ends within this time, and with how many steps it does."""
    if plan.time is None:
        remark = "the time of the run is unknown, so the deadline cannot be checked"
    elif plan.time.seconds <= seconds:
        remark = f"finishes in {duration(plan.time.seconds)} of {duration(seconds)}"
    else:
        # Evaluations and checkpoints are spread over the steps, so time is proportional to steps.
        steps = max(1, int(plan.time.steps * seconds / plan.time.seconds))
        remark = (f"does not finish in {duration(seconds)}: the whole run takes {duration(plan.time.seconds)}; "
                  f"with training.steps={steps} it finishes")
    return replace(plan, remarks=(*plan.remarks, remark))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A recipe's memory on a target, estimated by formula."""

    recipe: str
    target: str
    program: str
    """The program that needs the most memory."""
    peak_bytes: int
    """Bytes per device, like `limit_bytes`."""
    limit_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Keys of `plan --formula --json`."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """The estimate as a sentence."""
        return (f"{self.recipe} on {self.target}: about {gib(self.peak_bytes)} of {gib(self.limit_bytes)} per device "
                f"by formula, for the {self.program}")


def estimate_memory(loaded: LoadedRecipe, on: str) -> Estimate:
    """Estimates a recipe's memory on a target by formula; nothing is compiled. Raises as `plan`."""
    target = find_target(on)
    loaded = with_choices(loaded, target)
    engine = find_planning_engine(loaded.recipe.engine)
    peak_bytes = estimated_programs(loaded.recipe, find_shape(loaded), target, teacher_model(loaded), engine=engine)
    program = max(peak_bytes, key=lambda name: peak_bytes[name])
    return Estimate(recipe=loaded.recipe.name, target=target.name, program=program, peak_bytes=peak_bytes[program],
                    limit_bytes=target_memory_limit(target, engine)[0])


def plan(recipe: RecipeLike, on: str, overrides: Overrides = (), *, nearest: bool = True) -> Plan:
    """Plans a recipe's run on a target: whether it fits, and how long it takes. Downloads nothing.

    Args:
        recipe: a file, a shipped recipe's name, a recipe as a dict, or a loaded recipe.
        on: a target of the catalog, or another spelling of it.
        overrides: ``key=value`` words, or a dict of dotted keys.
        nearest: if it does not fit, search for the plan that does with the fewest changes.

    Raises:
        RequestError: the request is wrong.
        WorkingsError: the compiler crashed; the message names the file with its last lines.
    """
    return plan_target(load_recipe(recipe, overrides), find_target(on), nearest=nearest)


def plan_target(loaded: LoadedRecipe, target: Target, *, nearest: bool = True) -> Plan:
    """`plan` for a machine that need not be in the catalog; raises the same errors."""
    loaded = with_choices(loaded, target)
    shape = find_shape(loaded)
    # Steps depend on the rows of one step, and those on the devices of the mesh.
    loaded = with_steps(loaded, mesh_of(loaded.recipe, target).row_devices)
    teacher = teacher_model(loaded)
    plan = plan_with_nearest(loaded.recipe, shape, target, search=nearest, teacher=teacher)
    request = engine_request(loaded.recipe, shape, target)
    operations = step_operations(request, plan.batch)
    measured = None
    # Measuring takes ten seconds, so a short run is not measured.
    if (target.platform == "cpu" and loaded.recipe.algorithm.examples != "prompts"
            and (loaded.recipe.training.steps or 1) * operations >= LEAST_OPERATIONS):
        # Without the data, assume that half of a row is learned. The longest rows give an upper bound.
        measured = calibrated_throughput(request, loaded.recipe.engine, plan.batch, 0.5)
    plan = with_time(plan, loaded, shape, target, measured, teacher)
    return replace(plan, remarks=(*plan.remarks, *loaded.chosen))
