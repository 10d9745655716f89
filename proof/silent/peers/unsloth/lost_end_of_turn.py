"""The end of the turn with ChatML, also where padding is the same token."""
from _tiny import MARKS, TALK, learned, say, tokenizer

found = [learned(tokenizer(**more), TALK, **MARKS) for more in ({}, {"pad_token": "<|im_end|>"})]
say("right" if all(text.count("<|im_end|>") == 2 for text in found) else "wrong", f"learned are {found[0]!r} and {found[1]!r}")
