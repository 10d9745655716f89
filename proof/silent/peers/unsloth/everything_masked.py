"""A marker of the answer that the template does not write."""
from _tiny import MARKS, TALK, say, train_on_responses_only, trainer

try:
    made = train_on_responses_only(trainer(TALK), **(MARKS | {"response_part": "<|start|>model\n"}))
    say("wrong", f"{len(made.train_dataset)} rows are left, all masked")
except (ValueError, RuntimeError, ZeroDivisionError) as error:
    say("refused", " ".join(str(error).split())[:150])
