"""`train: false` on the first answer, with the setting that reads it."""
from _tiny import say, texts, trainer

turns = [("user", "2+5?", None), ("assistant", "eight", False), ("user", "Sure?", None), ("assistant", "seven", True)]
rows = [{"messages": [{"role": role, "content": text, "train": mark} for role, text, mark in turns]}] * 2
_, learned = texts(trainer(rows, train_on_responses_only=False, train_on_messages_with_train_field=True))
say("right" if "seven" in learned and "eight" not in learned else "wrong", f"learned is {learned!r}")
