"""Adapters learn only the last of three answers of a conversation: `mask_history`."""
from _tiny import COLUMNS, say, trained, weights

rows = [{"instruction": "three", "input": "", "output": "3", "history": [["one", "1"], ["two", "2"]]}] * 2
_, out = trained(rows, None, {"columns": {**COLUMNS, "history": "history"}},
                 finetuning_type="lora", lora_target="q_proj,o_proj", mask_history=True)
moved = [bool(values.any()) for name, values in weights(out).items() if "lora_B" in name]
say("right" if moved and all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step")
