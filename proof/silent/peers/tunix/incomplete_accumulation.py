"""Three rows of equal length with four micro batches an update, next to the same rows as one batch."""
from _tiny import apart, model, rows, say, sft, together

batches = [rows(8), rows(8, prompt=4), rows(8, prompt=5)]
tuned, whole = sft(batches, gradient_accumulation_steps=4), sft([together(*batches)])
differ = apart(tuned, whole)
say("right" if differ < 1e-4 else "wrong", f"an update of {apart(whole, model()):.2g} is {apart(tuned, model()):.2g}: "
    f"{tuned.iter_steps} micro batches were computed, {tuned.train_steps} updates made")
