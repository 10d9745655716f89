"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import folder, logged, say, trained

rows, place = [{"instruction": "ab", "input": "", "output": letter * 8} for letter in "cde"], folder()
norms = []
for some, size, accumulation in ((rows, 3, 1), (rows, 1, 3), (rows[-1:], 1, 1)):
    log, _ = trained(some, place, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    norms.append(round(logged(log, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 2e-3 else "wrong", f"gradient norms {norms}")
