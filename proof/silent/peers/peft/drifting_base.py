"""A model in bfloat16 whose adapter is merged for three rollouts and taken out again: the base below the adapter."""
import warnings

import torch
from _tiny import model, say
from peft import LoraConfig, get_peft_model


def base():
    with torch.no_grad(), tuned.disable_adapter():
        return [*(p.clone() for name, p in tuned.named_parameters() if "base_layer" in name), tuned(ids).logits]


config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
tuned, ids = get_peft_model(model().to(torch.bfloat16), config).eval(), torch.arange(20)[None]
before = base()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(3):
        tuned.merge_adapter()
        tuned.unmerge_adapter()
same = [torch.equal(one, other) for one, other in zip(before, base())]
say("right" if all(same) else "warned" if said else "wrong", f"{sum(same[:-1])} of {len(same) - 1} adapted matrices have the "
    f"same bits; logits of the base differ by {(before[-1] - base()[-1]).abs().max().item():.1e}; warned: {bool(said)}")
