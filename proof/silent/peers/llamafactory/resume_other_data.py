"""A run of four rows is resumed with two other rows."""
from _tiny import folder, say, trained

rows, place = [{"instruction": "ab", "input": "", "output": letter * 9} for letter in "cdefgh"], folder()
_, out = trained(rows[:4], place, max_steps=4, save_strategy="steps", save_steps=4)
try:
    log, _ = trained(rows[4:], place, max_steps=4, resume_from_checkpoint=f"{out}/checkpoint-4")
    steps = [line["loss"] for line in log if line.get("step", 0) > 4 and "loss" in line]
    say("right" if steps else "wrong", f"ends without a word, {len(steps)} updates with the other rows")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
