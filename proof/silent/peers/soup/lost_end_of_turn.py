"""Whether the end of the turn is learned, with marks around the answer and without."""
from _tiny import CHATML, MARKED, SUM, folder, say, texts, trainer

found = [texts(trainer(SUM, folder(template)))[1] for template in (MARKED, CHATML)]
say("right" if all("<|im_end|>" in text for text in found) else "wrong", f"learned are {found[0]!r} and {found[1]!r}")
