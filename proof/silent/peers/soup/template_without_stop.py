"""A template that writes no token after the answer."""
from _tiny import CHATML, SUM, folder, say, texts, trainer

place = folder(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}"))
try:
    _, learned = texts(trainer(SUM, place))
    say("right" if learned.endswith("<|im_end|>") else "wrong", f"learned is {learned!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
