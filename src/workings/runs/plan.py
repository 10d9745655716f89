"""`plan`: whether a recipe fits another machine, why, and the nearest recipe that does."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.config.recipe import Recipe
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target, find_target
from workings.hardware.memory import gib
from workings.inputs.resolve import find_shape
from workings.planning.calibration import LEAST_OPERATIONS, calibrated_throughput
from workings.planning.plan import Plan, target_memory_limit
from workings.planning.planned_run import engine_request, planned_mesh
from workings.planning.run_time import step_operations
from workings.planning.search import estimated_programs, plan_with_nearest
from workings.runs.plan_time import with_steps, with_time
from workings.runs.select_engine import with_engine
from workings.ways.base import way_of
from workings.ways.parts.find_teacher import teacher_model


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
                "by "
                f"formula, for the {self.program}")


def estimate_sentence(loaded: LoadedRecipe, on: str) -> str:
    """The estimate as a line to show while the compiler runs. Raises `RequestError` as `plan`."""
    return f"estimated  {estimate_memory(loaded, on).sentence}; the plan follows"


def estimate_memory(loaded: LoadedRecipe, on: str) -> Estimate:
    """Estimates a recipe's memory on a target by formula; nothing is compiled.

    Raises:
        RequestError: as `plan`.
    """
    target = find_target(on)
    loaded = with_engine(loaded, target.platform)
    engine = find_planning_engine(loaded.recipe.engine)
    peak_bytes = estimated_programs(loaded.recipe, find_shape(loaded), target, teacher_model(loaded), engine=engine)
    # The largest program decides.
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
    loaded = with_engine(loaded, target.platform)
    shape = find_shape(loaded)
    # Steps depend on the rows of one step, and those on the devices of the mesh.
    loaded = with_steps(loaded, planned_mesh(loaded.recipe, target).fsdp)
    teacher = teacher_model(loaded)
    plan = plan_with_nearest(loaded.recipe, shape, target, search=nearest, teacher=teacher)
    operations = step_operations(engine_request(loaded.recipe, shape, target), plan.batch)
    own = None
    if target.platform == "cpu" and _is_long(loaded.recipe, operations):
        # Without the data, assume that half of a row is learned. The longest rows give an upper bound.
        own = calibrated_throughput(engine_request(loaded.recipe, shape, target), loaded.recipe.engine, plan.batch, 0.5)
    plan = with_time(plan, loaded, shape, target, own, teacher)
    return replace(plan, remarks=(*plan.remarks, *loaded.chosen))


def _is_long(recipe: Recipe, operations: float) -> bool:
    """Whether a run with this many operations per step is worth ten seconds of measuring."""
    return (recipe.training.steps or 1) * operations >= LEAST_OPERATIONS and way_of(recipe).is_timed_by_steps
