"""Compiled programs are kept between runs in a private folder, and compute the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from workings.engines.jax import device
from workings.engines.jax.device import keep_programs
from workings.errors import RequestError

TWICE = """
import json, os, sys
import jax
sys.path.insert(0, sys.argv[1])
from tiny import random_batch, request, tiny_shape
from workings.engines.jax.engine import JaxEngine
# The second process begins when the first has ended; both are copies of this one, which only imports.
if os.fork():
    assert os.wait()[1] == 0
    if os.fork():
        os._exit(os.wait()[1] != 0)
found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name.rsplit("/", 1)[-1]))
engine, batch = JaxEngine.open(request(tiny_shape())), random_batch(tiny_shape())
state, losses = engine.init(0), []
for _ in range(3):
    state, result = engine.step(state, batch, 1e-2)
    losses.append(result.loss.hex())
print(json.dumps({"losses": losses, "peak": engine.inspect(batch).peak_bytes, "evaluated": engine.evaluate(
    state, batch).loss_sum.hex(), "hits": found.count("cache_hits"), "misses": found.count("cache_misses")}))
"""


@pytest.fixture
def own(monkeypatch, tmp_path):
    """JAX without a folder of the tests, and this folder as the cache directory."""
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
             "jax_persistent_cache_min_entry_size_bytes", "jax_enable_compilation_cache")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.slow
def test_a_second_run_compiles_nothing_and_computes_the_same(child_environment, tmp_path):
    environment = {name: value for name, value in child_environment(WORKINGS_CACHE=str(tmp_path)).items()
                   if not name.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
    done = subprocess.run([sys.executable, "-c", TWICE, str(Path(__file__).parent)], env=environment, check=True,
                          capture_output=True, text=True)
    first, second = map(json.loads, done.stdout.splitlines())
    kept = list((tmp_path / "programs").glob("*/jit_step-*-cache"))
    assert len(kept) == 1
    assert first.pop("misses") == second.pop("hits") >= 4, "step, first weights, moments and evaluation"
    assert (first.pop("hits"), second.pop("misses")) == (0, 0)
    assert first == second


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_folder_that_others_can_write_to_is_refused(own):
    keep_programs()
    place = Path(jax.config.jax_compilation_cache_dir)
    jax.config.update("jax_compilation_cache_dir", None)
    place.chmod(0o770)
    with pytest.raises(RequestError, match=f"other users can write to {place}") as caught:
        keep_programs()
    assert caught.value.try_next.startswith(f"chmod 700 {place}")
    assert jax.config.jax_compilation_cache_dir is None


def test_what_the_person_told_jax_stays(own):
    jax.config.update("jax_compilation_cache_dir", "/somewhere/else")
    keep_programs()
    assert jax.config.jax_compilation_cache_dir == "/somewhere/else"
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    keep_programs()
    assert jax.config.jax_compilation_cache_dir is None
    assert not list(own.iterdir())


def test_the_oldest_programs_go_first(own, monkeypatch):
    keep_programs()
    place = Path(jax.config.jax_compilation_cache_dir)
    for age, name in enumerate(("new", "old", "oldest")):
        file = place / f"{name}-cache"
        file.write_bytes(b"x" * 10)
        os.utime(file, (1000 - age, 1000 - age))
    monkeypatch.setattr(device, "MAX_BYTES", 20)
    jax.config.update("jax_compilation_cache_dir", None)
    keep_programs()
    assert sorted(file.name for file in place.iterdir()) == ["new-cache", "old-cache"]
