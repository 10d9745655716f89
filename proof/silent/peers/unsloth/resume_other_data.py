"""A run of four rows is resumed with two other rows."""
from _tiny import CHATML, logged, model_folder, say, trainer, turns

rows, place = [turns("ab", letter * 9) for letter in "cdefgh"], model_folder(CHATML)
one = trainer(rows[:4], place, max_steps=4, save_strategy="steps", save_steps=4)
one.train()
try:
    again = trainer(rows[4:], place, max_steps=4)
    again.train(resume_from_checkpoint=f"{one.args.output_dir}/checkpoint-4")
    steps = len(logged(again, "loss")) - len(logged(one, "loss"))
    say("right" if steps > 0 else "wrong", f"ends without a word, {max(steps, 0)} updates with the other rows")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
