"""The columns `input` and `system`, named in `to_sharegpt`'s prompt."""
from _tiny import say
from datasets import Dataset
from unsloth.chat_templates import standardize_sharegpt, to_sharegpt

rows = Dataset.from_list([{"instruction": "Who wrote it?", "input": "ANNA wrote it.", "output": "Anna"}] * 2)
made = standardize_sharegpt(to_sharegpt(rows, merged_prompt="{instruction}[[\n{input}]]", output_column_name="output"))
turns = made[0]["conversations"]
say("right" if "ANNA" in turns[0]["content"] else "wrong", f"the first turn is {turns[0]['content']!r}")
