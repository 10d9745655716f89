"""Rows of 3 and of 25 learned tokens: as one batch of two, and as two micro batches."""
from _tiny import apart, model, rows, say, sft, together

short, long = rows(3), rows(25)
once, twice = sft([together(short, long)]), sft([short, long], gradient_accumulation_steps=2)
size, differ = apart(once, model()), apart(once, twice)
say("right" if differ < 1e-4 else "wrong", f"an update of {size:.2g} as one batch is off by {differ:.2g} as two")
