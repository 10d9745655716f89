"""The marker of the answer is not found, or the template has no generation marks: every label is masked.

Reported: unsloth#11321, marin#7237, trl#6578, liquid-finetune#37.
"""

from proof.silent._harness import TEMPLATES, Found, Trace, batch, opened, right_if, rows_of
from tests.engines.tiny import tiny_shape


def check(engine: str) -> Found:
    """Of templates without such marks every row has learned tokens, and a step moves the weights."""
    changed = {}
    for name in ("gemma", "llama", "qwen"):
        template = TEMPLATES[name][0]()
        rows = rows_of(template, Trace(id="x", prompt="What is 1+1?", steps=(), answer="2"))
        model = opened(engine, shape=tiny_shape("llama", vocab=template.tokenizer.vocab_size))
        changed[name] = model.step(model.init(0), batch(rows.rows, length=64), 1e-3)[1].grad_norm
    return right_if(all(norm > 0 for norm in changed.values()),
                    "gradient norms " + ", ".join(f"{name} {norm:.3f}" for name, norm in changed.items()))
