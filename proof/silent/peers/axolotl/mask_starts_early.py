"""The first learned token of a conversation."""
from _tiny import SUM, encoded, say, texts

tokens, rows = encoded(SUM)
_, learned = texts(tokens, rows[0])
say("right" if learned.startswith("two") else "wrong", f"learned is {learned!r}")
