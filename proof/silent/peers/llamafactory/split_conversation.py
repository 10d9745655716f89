"""A conversation of two turns that all end with the end of text, packed with another row: its documents."""
from _tiny import COLUMNS, encoded, say

rows = [{"instruction": "two", "input": "", "output": "2", "history": history} for history in ([["one", "1"]], [])]
tokens, made = encoded(rows, None, {"columns": {**COLUMNS, "history": "history"}},
                       packing=True, neat_packing=True)
documents, ends = {*made[0]["attention_mask"]} - {0}, list(made[0]["input_ids"]).count(tokens.eos_token_id)
say("right" if len(documents) == 2 else "wrong", f"{len(documents)} documents for 2 conversations with {ends} ends of text")
