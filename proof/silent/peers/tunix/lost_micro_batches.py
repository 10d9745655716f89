"""Three rows of equal length as one batch, as three micro batches, and the last row alone."""
from _tiny import apart, rows, say, sft, together

first, second, third = rows(8), rows(8, prompt=4), rows(8, prompt=5)
once, thrice = sft([together(first, second, third)]), sft([first, second, third], gradient_accumulation_steps=3)
differ, last = apart(once, thrice), apart(sft([third]), thrice)
say("right" if differ < 1e-4 < last else "wrong", f"off by {differ:.2g} from one batch, by {last:.2g} from the last row")
