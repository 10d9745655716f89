"""Planning asks the engine: a third one from another package, with the capability of planning and without it."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from tests.planning.planning_helpers import recipe, shape
from workings.engines.base import Inspection, NotInspected, PlanningEngine, Refusal
from workings.engines.registry import engine_libraries, find_engine, find_planning_engine, planning_engines
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.planning.plan import make_plan


class Third:
    """Knows one machine, and counts how often it is asked."""

    name = "third"
    libraries = ("third_engine",)
    inspected_platforms = ("gpu", "tpu")
    splits_frozen = True
    asked: ClassVar[list] = []

    @classmethod
    def refusals(cls, request):
        return [Refusal("optimizer muon", "optimizer.name: muon with engine third", "adamw",
                        "optimizer.name=adamw")] if request.optimizer.name == "muon" else []

    @classmethod
    def inspect_for(cls, request, programs, target):
        for refusal in cls.refusals(request):
            raise refusal
        if target.name == "l4":
            raise NotInspected("the third engine has never seen this card")
        cls.asked.append((target.name, sorted(programs)))
        large = programs["step"][1] > 64
        step = Inspection(
            peak_bytes=2**36 if large else 3000, source="compiled", breakdown={"all": 3000}, versions={"third": "1"},
            refused="too large" if large else "", limit_bytes=2**30 if large else 0,
            exact={"parameters": 1000}, notes=("said by the third engine",))
        return {"step": step} if large else dict.fromkeys(programs, step)

    @classmethod
    def inspection_key(cls, target):
        return {"target": target.name, "versions": {"third": "1"}}

    @classmethod
    def usable_memory(cls, target):
        return 4000, "half of a toy"


@pytest.fixture
def third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As if a package were installed that plans for an engine called `third`."""
    described = tmp_path / "package" / "third_engine-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: third-engine\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[workings.planning_engines]\nthird = third_engine:Third\nbroken = third_engine:Inspection\n")
    module = ModuleType("third_engine")
    module.Third, module.Inspection = Third, Inspection
    monkeypatch.setitem(sys.modules, "third_engine", module)
    monkeypatch.setattr(Third, "asked", [])
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))


def third_recipe(**changes):
    return recipe(engine="third", evaluation={"items": "eval", "max_new_tokens": 16, "batch_size": 4}, **changes)


@pytest.mark.parametrize("target", ["t4", "v5e-8"])
def test_a_third_engine_is_planned_by_what_it_says(third, target):
    plan = make_plan(third_recipe(), shape(), find_target(target))
    assert Third.asked == [(target, ["generation", "step"])]
    assert (plan.verdict.source, plan.verdict.peak_bytes, plan.verdict.limit_bytes) == ("compiled", 3000, 4000)
    assert "half of a toy" in plan.verdict.reasons[0]
    assert "said by the third engine" in plan.reasons
    assert ("parameters", 1000, "exact") in [(part.name, part.size_bytes, part.certainty) for part in plan.parts]
    assert {part.certainty for part in plan.parts} == {"exact", "by proportion"}
    again = make_plan(third_recipe(), shape(), find_target(target))
    assert len(Third.asked) == 1
    assert again == plan
    json.dumps(again.to_json())


def test_what_it_refuses_for_lack_of_memory_is_no_at_once(third):
    plan = make_plan(third_recipe(batch={"micro_batch": 128}), shape(), find_target("t4"))
    assert not plan.verdict.fits
    assert plan.verdict.limit_bytes == 2**30
    assert set(plan.peaks) == {"step"}
    assert "the compiler refused: too large" in plan.reasons


def test_where_it_knows_nothing_its_plan_is_estimated_and_what_it_does_not_do_is_refused(third):
    plan = make_plan(third_recipe(), shape(), find_target("l4"))
    assert plan.verdict.source == "estimated"
    assert any("the third engine has never seen this card" in reason for reason in plan.reasons)
    with pytest.raises(RequestError, match="muon with engine third"):
        make_plan(third_recipe(optimizer={"name": "muon"}), shape(), find_target("t4"))
    with pytest.raises(RequestError, match="PlanningEngine"):
        find_planning_engine("broken")


def test_an_engine_without_the_capability_is_estimated_and_refused_on_a_tpu():
    plan = make_plan(recipe(engine="tunix"), shape(), find_target("t4"))
    assert (plan.verdict.source, plan.verdict.limit_bytes) == ("estimated", find_target("t4").memory_bytes)
    assert any("no compiler was asked for t4" in reason for reason in plan.reasons)
    with pytest.raises(RequestError, match="an engine that can ask the TPU's compiler") as refused:
        make_plan(recipe(engine="tunix"), shape(), find_target("v5e-8"))
    assert refused.value.try_next == "engine=jax"


def test_our_engines_have_the_capability_in_their_classes_too():
    assert list(planning_engines()) == ["jax", "torch"]
    assert engine_libraries("tunix") == ()
    for name in planning_engines():
        assert isinstance(find_engine(name).engine, PlanningEngine)
