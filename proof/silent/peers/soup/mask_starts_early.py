"""The first learned token of a template with marks around the answer; without them Soup documents another mask."""
from _tiny import SUM, say, texts, trainer

_, learned = texts(trainer(SUM))
say("right" if learned.startswith("2") else "wrong", f"learned is {learned!r}")
