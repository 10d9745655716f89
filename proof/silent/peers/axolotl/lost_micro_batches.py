"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import folder, logged, run, say

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": letter * 8}]} for letter in "cde"]
place, norms = folder(), []
for some, size, accumulation in ((rows, 3, 1), (rows, 1, 3), (rows[-1:], 1, 1)):
    one = run(some, place, micro_batch_size=size, gradient_accumulation_steps=accumulation)
    norms.append(round(logged(one, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 2e-3 < abs(norms[0] - norms[2]) else "wrong", f"gradient norms {norms}")
