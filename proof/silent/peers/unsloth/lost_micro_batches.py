"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import CHATML, logged, model_folder, say, trainer, turns

rows, place, norms = [turns("ab", letter * 8) for letter in "cde"], model_folder(CHATML), []
for some, size, accumulation in ((rows, 3, 1), (rows, 1, 3), (rows[-1:], 1, 1)):
    one = trainer(some, place, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    norms.append(round(logged(one, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 1e-3 < abs(norms[0] - norms[2]) else "wrong", f"gradient norms {norms}")
