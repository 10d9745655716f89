"""Plans that come with the package: found by their digest alone, and said to be made beforehand."""

from dataclasses import asdict, replace

import pytest

from tools.ship_plans import is_current, machines
from workings.config.load import load_recipe
from workings.engines.base import Inspection
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape
from workings.planning.inspection_cache import cache_directory, inspect_programs, shipped_plans
from workings.planning.matrix import BASE_RECIPE, cell_overrides
from workings.planning.planned_run import engine_request, mesh_of, programs_of


def test_an_answer_of_the_package_is_used_where_everything_is_equal_and_nowhere_else(tmp_path, monkeypatch):
    target, engine = find_target("v5e-8"), find_planning_engine("jax")
    key, asked = dict(engine.inspection_key(target)), []

    def inspect_for(request, programs, target):
        asked.append(sorted(programs))
        said = Inspection(peak_bytes=1234, source="compiled", breakdown={}, versions={"jax": "1"}, notes=("a note",))
        return dict.fromkeys(programs, said)

    monkeypatch.setattr(engine, "inspect_for", inspect_for)
    recipe = load_recipe(BASE_RECIPE, cell_overrides("gemma-3-1b", "LoRA", 1024, target)).recipe
    request = engine_request(recipe, published_shape("gemma-3-1b"), target)
    programs = programs_of(recipe, mesh_of(recipe, target).row_devices)
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "maker"))
    made = inspect_programs(engine, request, programs, target)
    for path in cache_directory().glob("????????????????*.json"):
        monkeypatch.setitem(shipped_plans(), path.stem, {"plan": "x", "answer": asdict(made["step"])})

    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "user"))
    found = inspect_programs(engine, request, programs, target)
    assert len(asked) == 1
    assert found["step"].peak_bytes == 1234
    assert found["step"].notes[0] == "a note"
    assert found["step"].notes[1].startswith("compiled beforehand and shipped with this package")
    # Another version of a library, another source of the engine, another request: each is compiled as ever.
    for different in ({"versions": {**key["versions"], "libtpu": "0"}}, {"engine": "0" * 64}):
        monkeypatch.setattr(engine, "inspection_key", lambda target, different=different: key | different)
        inspect_programs(engine, request, programs, target)
    monkeypatch.setattr(engine, "inspection_key", lambda target: key)
    inspect_programs(engine, replace(request, packed=True), programs, target)
    assert len(asked) == 4


def test_every_shipped_answer_can_be_read_and_belongs_to_a_shipped_recipe():
    titles = {f"{recipe} on {machine}" for recipe, machine in machines().items()}
    for digest, entry in shipped_plans().items():
        assert len(digest) == 64
        assert entry["plan"] in titles
        assert Inspection.from_json(entry["answer"]).source in ("compiled", "traced")


def test_a_recipe_with_current_answers_is_planned_without_a_compiler():
    planned = {entry["plan"].split(" on ")[0] for entry in shipped_plans().values()}
    current = next((recipe for recipe in sorted(planned) if is_current(recipe, machines()[recipe])), None)
    if current is None:
        # No failure: the engine's source or a library is another one since, and then plans are compiled when asked for.
        pytest.skip("no shipped plan is current with this source and these libraries: make plans")
    assert not is_current("smoke-tiny", "v5e-8")
