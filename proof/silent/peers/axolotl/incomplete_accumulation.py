"""Three rows, four micro batches an update: the update of an epoch's end has the gradient of the three rows."""
from _tiny import folder, logged, run, say

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": letter * 9}]} for letter in "cde"]
place, found = folder(), []
for size, accumulation in ((3, 1), (1, 4)):
    one = run(rows, place, micro_batch_size=size, gradient_accumulation_steps=accumulation)
    found.append((round(logged(one, "loss")[0], 4), round(logged(one, "grad_norm")[0], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} as one batch, {found[1]} as 3 of 4 micro batches")
