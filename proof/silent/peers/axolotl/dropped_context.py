"""The columns `input` and `system` of Alpaca's format."""
from _tiny import encoded, say, texts

row = {"instruction": "Who wrote it?", "input": "ANNA wrote it.", "output": "Anna", "system": "BRIEFLY"}
found = []
for kind in ("alpaca", "alpaca_w_system.load_open_orca"):
    tokens, rows = encoded([{**row, "question": row["instruction"], "response": row["output"], "system_prompt": "BRIEFLY"}] * 2,
                           None, {"type": kind}, chat_template=None)
    found.append(next(iter(texts(tokens, rows[0]))))
say("right" if "ANNA" in found[0] and "BRIEFLY" in found[1] else "wrong", f"prompts {found}")
