"""Adapters learn only the last of three answers of a conversation: `last_response_only`."""
from _tiny import MARKS, say, trainer, turns

one = trainer([turns("one", "1", "two", "2", "three", "3")] * 2, only=MARKS | {"last_response_only": True})
one.train()
moved = [bool(values.any()) for name, values in one.model.named_parameters() if "lora_B" in name]
say("right" if moved and all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step")
