"""A prompt as long as `max_length`: no token of the completion is left."""
from _tiny import logged, say, sft

try:
    trainer = sft([{"prompt": "a" * 60, "completion": "b" * 9}] * 2, max_length=32)
    trainer.train()
    say("wrong", f"trained to its end, loss {logged(trainer, 'loss')[0]}, {len(trainer.train_dataset)} rows")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
