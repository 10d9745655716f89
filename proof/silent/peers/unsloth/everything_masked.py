"""A marker of the answer that the template does not write."""
from _tiny import MARKS, TALK, say, trainer

try:
    made = trainer([TALK] * 2, only=MARKS | {"response_part": "<|start|>model\n"})
    say("wrong", f"{len(made.train_dataset)} rows are left, all masked")
except (ValueError, RuntimeError, ZeroDivisionError) as error:
    say("refused", " ".join(str(error).split())[:150])
