"""The step compiled for a TPU that is not here, in a child process."""

import importlib.util

import pytest

from tests.engines.tiny import request, tiny_shape
from workings.config.training import AdafactorConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.jax.target import V5E_8, compile_for, largest_arrays, refused_bytes


def test_the_compilers_refusal_is_read() -> None:
    text = ("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 28.59G of 15.75G hbm. Exceeded hbm capacity by 12.84G.")
    assert refused_bytes(text) == (int(28.59 * 2 ** 30), int(15.75 * 2 ** 30))
    assert refused_bytes("INTERNAL: something else") == (0, 0)


def test_the_largest_arrays_of_a_module_are_listed_with_their_bytes() -> None:
    text = "%a = f32[2,3]{1,0} add(bf16[4,8]{1,0} %x, pred[7] %y), s32[] %z"
    assert largest_arrays(text, 2) == {"bf16[4,8]": 64, "f32[2,3]": 24}


@pytest.mark.slow
@pytest.mark.usefixtures("run_flags")
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_a_small_step_compiles_for_a_v5e_8_with_its_batch_split() -> None:
    """Gemma 2's features with flash attention on 8 chips: 16 rows of 1024 tokens become 2 on each."""
    shape = tiny_shape("gemma2", vocab=512, head_dim=128, width=256, mlp_width=512, sliding_window=64)
    asked = request(shape, device="tpu", optimizer=AdafactorConfig(name="adafactor", clip_norm=1.0),
                    precision=PrecisionConfig(parameters="bf16", compute="bf16", moments="bf16", rounding="stochastic"),
                    memory=MemoryConfig(remat="layer", loss_chunk=64), mesh=MeshConfig())
    found = compile_for(asked, (1, 16, 1024), V5E_8)
    assert found.source == "compiled"
    assert found.details["devices"] == 8
    assert found.details["tokens_per_device"] == [1, 2, 1024]
    assert found.peak_bytes >= found.details["floor"]["state"]
    # 16 x 1024 x 256 in bfloat16 would be an unsplit batch of activations.
    assert not {"bf16[16,1024,256]", "bf16[16384,256]"} & set(found.details["largest_arrays"])
    assert found.versions["libtpu"]
    heap = found.details["heap"]
    assert 0 < sum(heap.values()) <= found.breakdown["temporaries"]
    assert "activations kept for backward" in heap
