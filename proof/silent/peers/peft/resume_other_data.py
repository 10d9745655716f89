"""A run of four rows is resumed with two other rows."""
from _tiny import logged, say, trainer

asked = {"per_device_train_batch_size": 1, "max_steps": 4}
one = trainer([4, 5, 6, 7], save_strategy="steps", save_steps=4, **asked)
one.train()
try:
    again = trainer([8, 9], **asked)
    again.train(resume_from_checkpoint=f"{one.args.output_dir}/checkpoint-4")
    steps = len(logged(again, "loss")) - len(logged(one, "loss"))
    say("right" if steps > 0 else "wrong", f"ends without a word, {max(steps, 0)} updates with the other rows")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
