"""XLA's memory and kernels on a GPU: set before JAX is imported, where JAX can open one, and never against a person."""

import pytest

from workings.engines import gpu_settings

GPU, PLUGIN = {"gpu": "/dev/nvidia0"}, ("jax",)  # jax itself is in for the plugin: it is installed everywhere
FRACTION = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
UNTIMED = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"


@pytest.mark.parametrize(("here", "plugins", "own", "added"), [
    (GPU, PLUGIN, {}, FRACTION | {"XLA_FLAGS": UNTIMED}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"}, {"XLA_FLAGS": UNTIMED}),
    (GPU, PLUGIN, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "--xla_dump_to=/tmp/x"},
     {"XLA_FLAGS": f"--xla_dump_to=/tmp/x {UNTIMED}"}),
    (GPU, PLUGIN, {"XLA_FLAGS": "--xla_gpu_autotune_level=4"}, FRACTION),
    (GPU, PLUGIN, {"JAX_PLATFORMS": "cpu"}, {}),
    (GPU, ("no-such-plugin",), {}, {}),
    ({"tpu": "/dev/accel0"}, PLUGIN, {}, {}),
])
def test_settings_are_made_only_where_they_apply(here, plugins, own, added, monkeypatch) -> None:
    monkeypatch.setattr(gpu_settings, "accelerators", lambda: here)
    monkeypatch.setattr(gpu_settings, "PLUGINS", plugins)
    environment = dict(own)
    gpu_settings.settle(environment)
    assert environment == own | added


def test_the_engine_s_package_makes_them_before_jax_is_imported(run_python) -> None:
    code = ("import sys; from workings.engines import gpu_settings; gpu_settings.settle = lambda: print('settled'); "
            "import workings.engines.jax; print('jax' in sys.modules)")
    assert run_python("-c", code).stdout.split() == ["settled", "False"]


def test_the_share_that_plans_count_with() -> None:
    assert gpu_settings.gpu_share({}) == 0.95
    assert gpu_settings.gpu_share({"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}) == 0.5
    assert gpu_settings.gpu_share({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}) == 0.75
