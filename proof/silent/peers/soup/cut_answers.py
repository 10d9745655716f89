"""A prompt as long as `max_length`: no token of the answer is left."""
from _tiny import logged, say, trainer

rows = [{"messages": [{"role": "user", "content": "a" * 200}, {"role": "assistant", "content": "b" * 9}]}] * 2
try:
    made = trainer(rows, max_length=64)
    made.trainer.train()
    say("wrong", f"trained to its end, loss {logged(made, 'loss')[0]}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
