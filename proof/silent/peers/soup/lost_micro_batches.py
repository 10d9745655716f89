"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import folder, logged, say, trainer, turns

rows, place, norms = [turns("ab", letter * 8) for letter in "cde"], folder(), []
for some, size, accumulation in ((rows, 3, 1), (rows, 1, 3), (rows[-1:], 1, 1)):
    made = trainer(some, place, {"batch_size": size, "gradient_accumulation_steps": accumulation})
    made.train()
    norms.append(round(logged(made, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 2e-3 else "wrong", f"gradient norms {norms}")
