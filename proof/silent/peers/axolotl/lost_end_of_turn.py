"""Whether the end of the turn is learned."""
from _tiny import SUM, encoded, say, texts

tokens, rows = encoded(SUM)
_, learned = texts(tokens, rows[0])
say("right" if "<|im_end|>" in learned else "wrong", f"learned is {learned!r}")
