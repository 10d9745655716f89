"""A run of four rows is resumed with two other rows."""
from _tiny import folder, run, say

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": letter * 9}]} for letter in "cdefgh"]
place = folder()
out = run(rows[:4], place, max_steps=4, save_strategy="steps", save_steps=4).args.output_dir
try:
    one = run(rows[4:], place, max_steps=4, resume_from_checkpoint=f"{out}/checkpoint-4")
    steps = [line["loss"] for line in one.state.log_history if line["step"] > 4 and "loss" in line]
    say("right" if steps else "wrong", f"ends without a word, {len(steps)} updates with the other rows")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
