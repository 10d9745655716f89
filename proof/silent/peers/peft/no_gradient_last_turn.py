"""Two learned tokens at the end of a long row: the adapters that move in the first step."""
import torch
from _tiny import say, trainer

one = trainer([2])
ids = torch.arange(40)[None] + 5
one.data_collator = lambda rows: {"input_ids": ids, "attention_mask": ids.ne(0).long(), "labels": ids.where(ids > 42, -100)}
one.train()
moved = [bool(values.any()) for name, values in one.model.named_parameters() if "lora_B" in name]
say("right" if all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step")
