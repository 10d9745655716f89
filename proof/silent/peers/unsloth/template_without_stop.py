"""A template that writes no token behind the answer."""
from _tiny import CHATML, MARKS, TALK, learned, say, tokenizer

tokens = tokenizer(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}"))
try:
    text = learned(tokens, TALK[:3], **MARKS)
    say("right" if text.endswith("<|im_end|>") else "wrong", f"learned is {text!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
