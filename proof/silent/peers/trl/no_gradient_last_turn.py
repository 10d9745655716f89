"""Adapters learn only the last of three answers of a conversation."""
from _tiny import say, sft
from peft import LoraConfig

turns = [{"role": role, "content": text} for text in ("one", "two") for role in ("user", "assistant")]
rows = [{"prompt": [*turns, {"role": "user", "content": "three"}], "completion": [{"role": "assistant", "content": "3"}]}]
trainer = sft(rows * 2, peft=LoraConfig(r=2, target_modules=["q_proj", "o_proj"]))
trainer.train()
moved = [bool(values.any()) for name, values in trainer.model.named_parameters() if "lora_B" in name]
say("right" if all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step")
