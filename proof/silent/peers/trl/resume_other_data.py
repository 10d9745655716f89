"""A run of four rows is resumed with two other rows."""
from _tiny import logged, say, sft

rows = [{"prompt": "ab", "completion": letter * 9} for letter in "cdefgh"]
asked = {"per_device_train_batch_size": 1, "max_steps": 4}
trainer = sft(rows[:4], save_strategy="steps", save_steps=4, **asked)
trainer.train()
try:
    again = sft(rows[4:], **asked)
    again.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-4")
    steps = len(logged(again, "loss")) - len(logged(trainer, "loss"))
    say("right" if steps > 0 else "wrong", f"ends without a word, {max(steps, 0)} updates with the other rows")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
