"""The tokenizer's own template, which writes no token after the answer."""
from _tiny import CHATML, encoded, folder, say, texts

place = folder(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}"))
try:
    tokens, rows = encoded([{"instruction": "1+1?", "input": "", "output": "2"}], place, template=None)
    _, learned = texts(tokens, rows[0])
    say("right" if learned.endswith("<|im_end|>") else "wrong", f"learned is {learned!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
