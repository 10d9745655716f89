"""Thoughts in both answers, all of them learned, with the template `qwen3`, whose model's own drops earlier thoughts."""
from _tiny import COLUMNS, encoded, say, texts

rows = [{"instruction": "2+2?", "input": "", "output": "<think>\ntwo and two\n</think>\n\nLAST",
         "history": [["1+1?", "<think>\none and one\n</think>\n\nFIRST"]]}]
tokens, made = encoded(rows, None, {"columns": {**COLUMNS, "history": "history"}},
                       template="qwen3")
_, learned = texts(tokens, made[0])
right = "FIRST<|im_end|>" in learned and "LAST<|im_end|>" in learned and "2+2?" not in learned
say("right" if right else "wrong", f"learned is {learned!r}")
