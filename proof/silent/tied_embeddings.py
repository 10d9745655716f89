"""An adapter on an output matrix that is tied to the embedding: merged or reloaded, the model collapses.

Reported: peft#2777, unsloth PR 9331, transformers#45127.
"""

from proof.silent._harness import Found, opened, refused
from workings.config.method import LoraConfig


def check(engine: str) -> Found:
    """Only projections take adapters; `lm_head` and `embed_tokens` are refused."""
    found = [refused(lambda name=name: opened(engine, method=LoraConfig(name="lora", target_modules=(name,))), name)
             for name in ("lm_head", "embed_tokens")]
    return next((one for one in found if one.verdict == "wrong"), found[0])
