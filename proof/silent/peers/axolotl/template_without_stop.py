"""A template that writes no token after the answer."""
from _tiny import CHATML, SUM, encoded, folder, said, say, texts

place = folder(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}"))
try:
    tokens, rows = encoded(SUM, place)
    _, learned = texts(tokens, rows[0])
    warned = "turn terminator won't be trained" in " ".join(said.getvalue().split())
    say("right" if learned.endswith("<|im_end|>") else "warned" if warned else "wrong",
        f"learned is {learned!r}; warned of it: {warned}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
