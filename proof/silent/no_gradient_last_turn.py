"""A fused loss gives no gradient where only the last answer of several turns is learned; the loss looks normal.

Reported: unsloth#5230 (Gemma 4).
"""

import numpy as np

from proof.silent._harness import Found, batch, opened, right_if, temporary
from tests.data.making import row
from workings.config.method import LoraConfig
from workings.engines.safetensors_file import TensorFile


def check(engine: str) -> Found:
    """A tiny Gemma 4, two learned tokens at the end of a long row: one step moves every adapter's B."""
    method = LoraConfig(name="lora", rank=2, alpha=4, target_modules=("q_proj", "o_proj"))
    model = opened(engine, "gemma4", method=method)
    tokens = np.random.default_rng(0).integers(1, 60, 40).tolist()
    state, _ = model.step(model.init(0), batch([row("x", tokens, 38)]), 1e-2)
    with temporary() as folder:
        model.save(state, folder)
        file = TensorFile(folder / "adapter_model.safetensors")
        names = [name for name in file.names() if "lora_B" in name]
        moved = [name for name in names if np.any(np.asarray(file.read(name), np.float32))]
    return right_if(moved == names, f"{len(moved)} of {len(names)} adapters moved in the first step")
