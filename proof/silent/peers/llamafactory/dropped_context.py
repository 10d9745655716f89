"""The columns `input` and `system`, the second named in dataset_info.json."""
from _tiny import COLUMNS, encoded, say, texts

tokens, rows = encoded([{"instruction": "Who wrote it?", "input": "ANNA wrote it.", "output": "Anna", "system": "BRIEFLY"}],
                       None, {"columns": {**COLUMNS, "system": "system"}})
read, _ = texts(tokens, rows[0])
say("right" if "ANNA" in read and "BRIEFLY" in read else "wrong", f"the prompt is {read!r}")
