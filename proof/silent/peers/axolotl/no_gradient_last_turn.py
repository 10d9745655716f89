"""Adapters learn only the last of three answers of a conversation: `train: false` on the others."""
from _tiny import LORA, run, say

turns = [{"role": role, "content": text, "train": text == "3"} for text, role in zip(
    ("one", "1", "two", "2", "three", "3"), ("user", "assistant") * 3)]
one = run([{"messages": turns}] * 2, None, {"message_field_training": "train"}, **LORA | {"lora_target_modules": ["q_proj", "o_proj"]})
moved = [bool(values.any()) for name, values in one.model.named_parameters() if "lora_B" in name]
say("right" if moved and all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step")
