"""The columns `input` and `system` of Alpaca's format."""
from _tiny import say, texts, trainer

rows = [{"instruction": "Who wrote it?", "input": "ANNA wrote it.", "output": "Anna", "system": "BRIEFLY"}] * 2
read, _ = texts(trainer(rows, format="alpaca"))
say("right" if "ANNA" in read and "BRIEFLY" in read else "wrong", f"the prompt is {read!r}")
