"""`engine: auto`: what decides, and what is not decided."""

import pytest

from workings.engines import choice
from workings.engines.choice import Measured, choose
from workings.errors import RequestError

BOTH = ("jax", "torch")
SMALL = Measured(case="small", parameters=1_000_000, tokens_per_second={"jax": 300.0, "torch": 200.0})
LARGE = Measured(case="large", parameters=100_000_000, tokens_per_second={"jax": 10.0, "torch": 20.0})


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(choice, "measurements", lambda: (SMALL, LARGE))


@pytest.mark.parametrize(("parameters", "engine", "says"), [
    (200_000, "jax", "1.50 times"), (9_000_000, "jax", "(small)"), (11_000_000, "torch", "(large)"),
    (2_000_000_000, "torch", "2.00 times")])
def test_on_a_cpu_the_measurement_nearest_in_size_decides(measured, parameters, engine, says):
    found = choose(platform="cpu", parameters=parameters, only={}, installed=BOTH)
    assert found.engine == engine
    assert says in found.reason


def test_several_kinds_of_rows_of_one_size_decide_together(monkeypatch):
    other = Measured(case="other rows", parameters=1_100_000, tokens_per_second={"jax": 100.0, "torch": 400.0})
    monkeypatch.setattr(choice, "measurements", lambda: (SMALL, other, LARGE))
    found = choose(platform="cpu", parameters=900_000, only={}, installed=BOTH)
    assert found.engine == "torch"
    assert "small" in found.reason
    assert "other rows" in found.reason


@pytest.mark.parametrize(("platform", "only", "installed", "engine"), [
    ("tpu", {}, BOTH, "jax"), ("cpu", {"torch": "family gpt2"}, BOTH, "torch"), ("gpu", {"jax": "muon"}, BOTH, "jax"),
    ("cpu", {}, ("jax",), "jax"), ("gpu", {}, ("torch",), "torch")])
def test_what_only_one_engine_can_do_decides_before_speed(measured, platform, only, installed, engine):
    assert choose(platform=platform, parameters=1, only=only, installed=installed).engine == engine


@pytest.mark.parametrize(("platform", "only", "installed", "says"), [
    ("gpu", {}, BOTH, "not measured"), ("tpu", {"torch": "family gpt2"}, BOTH, "family gpt2 and a TPU"),
    ("cpu", {"torch": "family gpt2"}, ("jax",), "not installed"), ("cpu", {}, (), "neither is")])
def test_what_cannot_be_decided_is_refused(platform, only, installed, says):
    with pytest.raises(RequestError) as error:
        choose(platform=platform, parameters=1, only=only, installed=installed)
    assert says in str(error.value)


def test_the_package_has_measurements_of_both_engines():
    rows = choice.measurements()
    assert rows
    assert all(set(row.tokens_per_second) == set(BOTH) and row.parameters > 0 for row in rows)
