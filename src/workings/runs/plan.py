"""`plan`: does a recipe fit a machine that is not here, why, and what is the nearest that does. Downloads nothing."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target, find_target
from workings.hardware.memory import gib
from workings.planning.history import measured_throughput
from workings.planning.plan import Plan, target_memory_limit
from workings.planning.planned_run import planned_mesh
from workings.planning.search import estimated_programs, plan_with_nearest
from workings.runs.data.find_teacher import teacher_model
from workings.runs.plan_time import timed, with_deadline, with_steps
from workings.runs.resolve import find_shape
from workings.runs.select_engine import with_engine

OWN_RUNS = Path("runs")
"""Where a person's runs are looked for unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the formula alone says of a recipe on a target."""

    recipe: str
    target: str
    program: str
    """The one that needs most."""
    peak_bytes: int
    """Per device, as `limit_bytes`."""
    limit_bytes: int

    def as_json(self) -> dict[str, Any]:
        """Keys of `plan --formula --json`."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """In words."""
        return (f"{self.recipe} on {self.target}: about {gib(self.peak_bytes)} of {gib(self.limit_bytes)} a device by "
                f"formula, for the {self.program}")


def by_formula(loaded: LoadedRecipe, on: str) -> str:
    """What the formula says, as a sentence, while a compiler has yet to answer. Raises `RequestError` as `plan`."""
    return f"estimated  {estimated(loaded, on).sentence}; the plan itself follows"


def estimated(loaded: LoadedRecipe, on: str) -> Estimate:
    """What the formula says of a recipe on a target; nothing is compiled.

    Raises:
        RequestError: as `plan`.
    """
    target = find_target(on)
    loaded = with_engine(loaded, target.platform)
    engine = find_planning_engine(loaded.recipe.engine)
    needs = estimated_programs(loaded.recipe, find_shape(loaded), target, teacher_model(loaded),
                               split_frozen=engine is None or engine.splits_frozen)
    worst = max(needs, key=lambda name: needs[name])
    return Estimate(recipe=loaded.recipe.name, target=target.name, program=worst, peak_bytes=needs[worst],
                    limit_bytes=target_memory_limit(target, engine)[0])


def plan(recipe: RecipeLike, on: str, overrides: Overrides = (), *, nearest: bool = True,
         runs: Path = OWN_RUNS, deadline: float = 0.0) -> Plan:
    """Say whether a recipe's run fits a target, and how long it would take.

    Args:
        recipe: a file, a shipped recipe's name, a recipe as a dict, or one that is loaded already.
        on: a target of the catalog, or another spelling of it.
        overrides: ``key=value`` words, or a dict of dotted keys.
        nearest: where it does not fit, look for the plan that does and changes least.
        runs: folder of this person's runs; finished ones on the same device correct the time.
        deadline: seconds in which the run has to finish; 0: none.

    Raises:
        RequestError: what was asked for is wrong.
        WorkingsError: the compiler crashed; the message names the file with its last lines.
    """
    return plan_target(load_recipe(recipe, overrides), find_target(on), nearest=nearest, runs=runs, deadline=deadline)


def plan_target(loaded: LoadedRecipe, target: Target, *, nearest: bool = True, runs: Path = OWN_RUNS,
                deadline: float = 0.0) -> Plan:
    """`plan` for a machine that need not be in the catalog; errors as there."""
    loaded = with_engine(loaded, target.platform)
    shape = find_shape(loaded)
    loaded = with_steps(loaded, planned_mesh(loaded.recipe, target).fsdp)
    teacher = teacher_model(loaded)
    made = plan_with_nearest(loaded.recipe, shape, target, search=nearest, teacher=teacher)
    made = timed(made, loaded, shape, target, measured_throughput(runs, target) if runs.is_dir() else None, teacher)
    made = replace(made, remarks=(*made.remarks, *loaded.chosen))
    return with_deadline(made, loaded, shape, target, deadline, teacher) if deadline else made
