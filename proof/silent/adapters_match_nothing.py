"""Names of adapted matrices match nothing: an adapter without tensors, or one that loads as nothing, is saved.

Reported: Soup#392, mlx-lm#1249, mlx-lm-lora#69.
"""

from proof.silent._harness import Found, opened, refused
from workings.config.method import LoraConfig


def check(engine: str) -> Found:
    """A projection that the model does not have is refused, with the list of those that it has."""
    method = LoraConfig(name="lora", target_modules=("q_proj", "Wqkv"))
    return refused(lambda: opened(engine, method=method), "Wqkv", "q_proj, k_proj, v_proj")
