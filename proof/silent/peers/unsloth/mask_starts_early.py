"""The learned tokens of a conversation with ChatML."""
from _tiny import MARKS, TALK, learned, say, tokenizer

found = [learned(tokenizer(), TALK, **marks) for marks in (MARKS, {})]
say("right" if all(text.startswith("two") for text in found) else "wrong", f"learned are {found[0]!r} and, found out, {found[1]!r}")
