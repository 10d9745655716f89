"""`plan`: does a recipe fit a machine that is not here, why, and what is the nearest that does. Downloads nothing."""

from dataclasses import replace
from pathlib import Path

from workings.config.load import Overrides, RecipeLike, load_recipe
from workings.hardware.catalog import find_target
from workings.planning.history import own_pace
from workings.planning.plan import Plan
from workings.planning.search import plan_with_nearest
from workings.runs.plan_time import timed, with_deadline
from workings.runs.resolve import find_shape
from workings.runs.select_engine import with_engine
from workings.runs.teacher import teacher_shape

OWN_RUNS = Path("runs")
"""Where a person's runs are looked for unless told otherwise."""


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
    target = find_target(on)
    loaded = with_engine(load_recipe(recipe, overrides), target.platform)
    shape = find_shape(loaded)
    found = plan_with_nearest(loaded.recipe, shape, target, search=nearest, teacher=teacher_shape(loaded))
    found = timed(found, loaded, shape, target, own_pace(runs, target) if runs.is_dir() else None)
    found = replace(found, remarks=(*found.remarks, *loaded.chosen))
    return with_deadline(found, loaded, shape, target, deadline) if deadline else found
