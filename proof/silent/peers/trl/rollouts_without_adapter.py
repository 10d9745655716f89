"""Completions of a trainer with an adapter, before and after the adapter is made large."""
import torch
from _grpo import changed, grpo, spread
from _tiny import say
from peft import LoraConfig

samples = []
for large in (False, True):
    trainer = grpo(spread, peft=LoraConfig(r=4, target_modules=["q_proj", "down_proj"]), seed=3)
    kept = changed(trainer, lambda output: output)
    for name, values in trainer.model.named_parameters():
        if large and "lora_B" in name:
            torch.nn.init.normal_(values.data, std=3.0)
    trainer.train()
    samples.append(kept[0]["completion_ids"])
same = torch.equal(*samples)
say("wrong" if same else "right", f"completions with and without a large adapter are equal: {same}")
