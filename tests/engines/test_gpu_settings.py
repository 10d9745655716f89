"""XLA's memory and kernels on a GPU: set before JAX is imported, where JAX can open one, and never against a person."""

import json

import pytest

from workings.engines import gpu_settings

CODE = """
import json, os, sys
from workings.engines import gpu_settings
gpu_settings.accelerators = lambda: {here}
gpu_settings.PLUGINS = {plugins}
import workings.engines.jax
names = [*gpu_settings.MEMORY_VARIABLES, gpu_settings.FLAGS]
found = {{name: os.environ[name] for name in names if os.environ.get(name)}}
print(json.dumps([found, "jax" in sys.modules]))
"""
GPU, PLUGIN = {"gpu": "/dev/nvidia0"}, ("jax",)  # jax itself is in for the plugin: it is installed everywhere
FRACTION = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
UNTIMED = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
TIMED = {"XLA_FLAGS": "--xla_gpu_autotune_level=4"}


@pytest.mark.parametrize(("here", "plugins", "own", "found"), [
    (GPU, PLUGIN, {}, FRACTION | {"XLA_FLAGS": UNTIMED}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"},
     {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3", "XLA_FLAGS": UNTIMED}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "--xla_dump_to=/tmp/x"},
     {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": f"--xla_dump_to=/tmp/x {UNTIMED}"}),
    (GPU, PLUGIN, TIMED, FRACTION | TIMED),
    (GPU, PLUGIN, {"JAX_PLATFORMS": "cpu"}, {}),
    (GPU, ("no-such-plugin",), {}, {}),
    ({"tpu": "/dev/accel0"}, PLUGIN, {}, {}),
    ({}, PLUGIN, {}, {}),
])
def test_a_child_sees_the_setting_only_where_it_applies(here, plugins, own, found, run_python) -> None:
    code = CODE.format(here=here, plugins=plugins)
    # The suite has its own flags, which a child would inherit.
    done = run_python("-c", code, environment={"XLA_FLAGS": ""} | own)
    assert json.loads(done.stdout) == [found, False]


def test_the_share_that_plans_count_with() -> None:
    assert gpu_settings.gpu_share({}) == 0.95
    assert gpu_settings.gpu_share({"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}) == 0.5
    assert gpu_settings.gpu_share({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}) == 0.75
