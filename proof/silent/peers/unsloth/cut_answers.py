"""A prompt as long as `max_length`: no token of the answer is left."""
from _tiny import MARKS, say, train_on_responses_only, trainer

turns = [{"role": "user", "content": "a" * 90}, {"role": "assistant", "content": "b" * 9}]
try:
    made = train_on_responses_only(trainer(turns, max_length=64), **MARKS)
    say("wrong", f"{len(made.train_dataset)} rows are left, all masked")
except (ValueError, RuntimeError, ZeroDivisionError) as error:
    say("refused", " ".join(str(error).split())[:150])
