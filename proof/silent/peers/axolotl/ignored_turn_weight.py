"""`train: false` on the first answer, with the setting that reads it."""
from _tiny import encoded, say, texts

turns = [("user", "2+5?", False), ("assistant", "eight", False), ("user", "Sure?", False), ("assistant", "seven", True)]
rows = [{"messages": [{"role": role, "content": text, "train": mark} for role, text, mark in turns]}] * 2
tokens, made = encoded(rows, None, {"message_field_training": "train"})
_, learned = texts(tokens, made[0])
say("right" if "seven" in learned and "eight" not in learned else "wrong", f"learned is {learned!r}")
