"""A prompt as long as `max_length`: no token of the answer is left."""
from _tiny import say, trainer, turns

try:
    made = trainer([turns("a" * 90, "b" * 9)] * 2, max_length=64)
    say("wrong", f"{len(made.train_dataset)} rows are left, all masked")
except (ValueError, RuntimeError, ZeroDivisionError) as error:
    say("refused", " ".join(str(error).split())[:150])
