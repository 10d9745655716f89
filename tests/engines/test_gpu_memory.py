"""XLA's GPU memory: set before JAX is imported, where there is a GPU that JAX can open, and never against a person."""

import json

import pytest

from workings.engines import gpu_memory

CODE = """
import json, os, sys
from workings.engines import gpu_memory
gpu_memory.accelerators = lambda: {here}
gpu_memory.PLUGINS = {plugins}
{before}
import workings.engines.jax
found = {{name: os.environ[name] for name in gpu_memory.MEMORY_VARIABLES if name in os.environ}}
print(json.dumps([found, "jax" in sys.modules]))
"""
GPU, PLUGIN = {"gpu": "/dev/nvidia0"}, ("jax",)  # jax itself stands in for the plugin: it is installed everywhere


@pytest.mark.parametrize(("here", "plugins", "own", "found"), [
    (GPU, PLUGIN, {}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    (GPU, PLUGIN, {"JAX_PLATFORMS": "cpu"}, {}),
    (GPU, ("no-such-plugin",), {}, {}),
    ({"tpu": "/dev/accel0"}, PLUGIN, {}, {}),
    ({}, PLUGIN, {}, {}),
])
def test_a_child_sees_the_setting_only_where_it_applies(here, plugins, own, found, run_python) -> None:
    code = CODE.format(here=here, plugins=plugins, before="")
    done = run_python("-c", code, environment=own)
    assert json.loads(done.stdout) == [found, False]


def test_the_share_that_plans_count_with() -> None:
    assert gpu_memory.gpu_share({}) == 0.95
    assert gpu_memory.gpu_share({"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}) == 0.5
    assert gpu_memory.gpu_share({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}) == 0.75
