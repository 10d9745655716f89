"""Two learned tokens at the end of a conversation (`mask_history`): the adapters that move in the first step."""
from _tiny import LORA, say, texts, trainer, turns, weights

made = trainer([turns("one", "1", "two", "2", "three", "3")], None, {"lora": LORA}, mask_history=True)
_, learned = texts(made)
made.train()
moved = [bool(values.any()) for name, values in weights(made.trainer.args.output_dir).items() if "lora_B" in name]
say("right" if moved and all(moved) else "wrong", f"{sum(moved)} of {len(moved)} adapters moved in the first step; learned is {learned!r}")
