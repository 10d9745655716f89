"""A template that has no marks around the answer."""
from _tiny import CHATML, SUM, folder, say, texts, trainer

_, learned = texts(trainer(SUM, folder(CHATML)))
say("right" if "2" in learned else "wrong", f"learned is {learned!r}")
