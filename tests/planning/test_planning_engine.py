"""Planning asks the engine: a third one from another package, with the capability of planning and without it."""

import json
import sys
from pathlib import Path

import pytest

from tests.planning.planning_helpers import recipe, shape
from workings.engines.base import Inspection, PlanningEngine
from workings.engines.registry import engine_libraries, find_engine, find_planning_engine, planning_engines
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.planning.plan import make_plan

MODULE = '''
from workings.engines.base import Inspection, NotInspected, Refusal

class ThirdPlanning:
    """Knows one machine, and counts how often it is asked."""

    name = "third"
    libraries = ("third_engine",)
    inspected_platforms = ("gpu", "tpu")
    splits_frozen = True
    asked = []

    @classmethod
    def refusals(cls, request):
        if request.optimizer.name != "muon":
            return []
        return [Refusal(feature="optimizer muon", given="optimizer.name: muon with engine third", expected="adamw",
                        try_next="optimizer.name=adamw")]

    @classmethod
    def inspect_for(cls, request, programs, target):
        for refusal in cls.refusals(request):
            raise refusal.error()
        if target.name == "l4":
            raise NotInspected("the third engine has never seen this card")
        cls.asked.append((target.name, sorted(programs)))
        large = programs["step"][1] > 64 if "step" in programs else False
        step = Inspection(
            peak_bytes=2**36 if large else 3000, source="compiled", breakdown={"all": 3000}, versions={"third": "1"},
            refused="too large" if large else "", limit_bytes=2**30 if large else 0,
            exact={"parameters": 1000}, heap={"activations": 1500}, notes=("said by the third engine",))
        return {"step": step} if large else dict.fromkeys(programs, step)

    @classmethod
    def inspection_key(cls, target):
        return {"target": target.name, "versions": {"third": "1"}}

    @classmethod
    def usable_memory(cls, target):
        return 4000, "half of a toy"
'''
ENTRY_POINTS = """[workings.planning_engines]
third = third_engine:ThirdPlanning
broken = third_engine:Inspection
"""


@pytest.fixture
def third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """As if a package were installed that plans for an engine called `third`."""
    package = tmp_path / "package"
    described = package / "third_engine-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: third-engine\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    (package / "third_engine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    yield find_planning_engine("third")
    sys.modules.pop("third_engine", None)


@pytest.mark.parametrize("target", ["t4", "v5e-8"])
def test_a_third_engine_is_planned_by_what_it_says(third, target):  # type: ignore[no-untyped-def]
    asked = recipe(engine="third", evaluation={"items": "eval", "max_new_tokens": 16, "batch_size": 4})
    plan = make_plan(asked, shape(), find_target(target))
    assert third.asked == [(target, ["generation", "step"])]
    assert (plan.verdict.source, plan.verdict.peak_bytes, plan.verdict.limit_bytes) == ("compiled", 3000, 4000)
    assert "half of a toy" in plan.verdict.reasons[0]
    assert "said by the third engine" in plan.reasons
    assert [(part.name, part.size_bytes, part.certainty) for part in plan.parts] == [
        ("activations", 1500, "assigned"), ("parameters", 1000, "exact")]
    again = make_plan(asked, shape(), find_target(target))
    assert len(third.asked) == 1
    assert again == plan
    json.dumps(again.to_json())


def test_what_it_refuses_for_lack_of_memory_is_no_at_once(third):  # type: ignore[no-untyped-def]
    asked = recipe(engine="third", batch={"micro_batch": 128},
                   evaluation={"items": "eval", "max_new_tokens": 16, "batch_size": 4})
    plan = make_plan(asked, shape(), find_target("t4"))
    assert not plan.verdict.fits
    assert plan.verdict.limit_bytes == 2**30
    assert set(plan.peaks) == {"step"}
    assert "the compiler refused: too large" in plan.reasons


def test_where_it_knows_nothing_its_plan_is_estimated(third):  # type: ignore[no-untyped-def]
    plan = make_plan(recipe(engine="third"), shape(), find_target("l4"))
    assert plan.verdict.source == "estimated"
    assert any("the third engine has never seen this card" in reason for reason in plan.reasons)


def test_what_it_does_not_do_is_refused(third):  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError, match="muon with engine third"):
        make_plan(recipe(engine="third", optimizer={"name": "muon"}), shape(), find_target("t4"))


def test_an_engine_without_the_capability_is_estimated_and_refused_on_a_tpu():
    plan = make_plan(recipe(engine="tunix"), shape(), find_target("t4"))
    assert plan.verdict.source == "estimated"
    assert plan.verdict.limit_bytes == find_target("t4").memory_bytes
    assert any("no compiler was asked for t4" in reason for reason in plan.reasons)
    with pytest.raises(RequestError, match="an engine that can ask the TPU's compiler") as refused:
        make_plan(recipe(engine="tunix"), shape(), find_target("v5e-8"))
    assert refused.value.try_next == "engine=jax"


def test_what_is_registered_must_have_the_methods(third):  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError, match="PlanningEngine"):
        find_planning_engine("broken")


def test_our_engines_have_the_capability_in_their_classes_too():
    assert list(planning_engines()) == ["jax", "torch"]
    assert engine_libraries("tunix") == ()
    for name in planning_engines():
        assert isinstance(find_engine(name).engine, PlanningEngine)
    pytest.importorskip("tunix")
    assert not isinstance(find_engine("tunix").engine, PlanningEngine)


def test_an_inspection_survives_json():
    found = Inspection(peak_bytes=1, source="traced", breakdown={"a": 1}, versions={}, assumed=("a",), notes=("b",),
                       tokens_per_device=(1, 2, 3), seconds={"trace": 0.5})
    assert Inspection.from_json(json.loads(json.dumps(found.__dict__))) == found
