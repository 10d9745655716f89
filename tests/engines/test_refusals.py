"""What an engine does not do is refused when it is opened, with what it found and what to do."""

from typing import Any

import pytest

from tests.engines.tiny import request, tiny_shape
from tests.engines.torch_oracle import FORMS
from workings.config.method import QloraConfig
from workings.config.training import AdafactorConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.registry import find_engine
from workings.errors import RequestError

HOST, FLASH = MemoryConfig(per_layer_embeddings="host"), MemoryConfig(attention="flash")
HALF, BF16 = PrecisionConfig(compute="fp16"), PrecisionConfig(parameters="bf16", rounding="stochastic")
EXPERTS, LARGE = (tiny_shape("gemma4", **FORMS[f"gemma4 {form}"][1]) for form in ("26B-A4B", "31B"))
# Layer 0, which slides, comes out even; the global layer after it does not.
UNEVEN = tiny_shape("gemma4", width=40, mlp_width=64, head_dim=8, global_head_dim=14, shared_mlp_width=128)


@pytest.mark.parametrize(("engine", "shape", "changes", "said"), [
    ("jax", tiny_shape("gemma4"), {"memory": HOST}, "engine jax does not take memory.per_layer_embeddings: host"),
    ("torch", tiny_shape("gemma3"), {"memory": HOST}, "a gemma3 model has no table for"),
    ("torch", LARGE, {"memory": HOST}, "a gemma4 model has no table for"),
    ("torch", EXPERTS, {"precision": BF16}, "one format for both"),
    ("torch", EXPERTS, {"optimizer": AdafactorConfig(name="adafactor")}, r"adafactor cannot train .*\.0\.experts"),
    ("torch", UNEVEN, {"method": QloraConfig(name="qlora", rank=2)}, "k_proj of layer 1: it is 28 x 40"),
    ("jax", tiny_shape(), {"precision": HALF}, "jax does not take precision.compute: fp16(?s:.*)engine=torch"),
    ("torch", EXPERTS, {"precision": HALF}, "fp16 does not work with experts"),
    ("torch", tiny_shape("qwen3_5"), {"packed": True}, "data.packing does not work with a qwen3_5(?s:.*)packing=none"),
    ("jax", tiny_shape(head_dim=128), {"memory": FLASH}, "flash does not run on a CPU"),
    ("torch", tiny_shape("gemma2"), {"memory": FLASH}, "flash does not cap scores, and a gemma2 model"),
    ("jax", tiny_shape(), {"mesh": MeshConfig(fsdp=4)}, "needs 4 devices, and 1 are here"),
    ("torch", tiny_shape(), {"mesh": MeshConfig(fsdp=2)}, "2 needs 2 processes, not 1(?s:.*)torchrun --nproc-per"),
    ("torch", tiny_shape(), {"mesh": MeshConfig(tp=2)}, "engine torch does not take mesh.tp: 2"),
    ("torch", tiny_shape(), {"device": "tpu"}, "engine torch cannot use a TPU"),
])
def test_what_an_engine_does_not_do_is_refused(engine: str, shape: Any, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        find_engine(engine).engine.open(request(shape, **changes))
