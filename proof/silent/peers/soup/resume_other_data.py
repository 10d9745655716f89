"""A run of four rows is resumed with two other rows."""
from _tiny import folder, logged, say, trainer, turns

rows, place = [turns("ab", letter * 9) for letter in "cdefgh"], folder()
made = trainer(rows[:4], place, {"save_steps": 4})
made.train()
try:
    again = trainer(rows[4:], place)
    again.train(resume_from_checkpoint=f"{made.trainer.args.output_dir}/checkpoint-4")
    steps = len(logged(again, "loss")) - len(logged(made, "loss"))
    say("right" if steps > 0 else "wrong", f"ends without a word, {max(steps, 0)} updates with the other rows")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
