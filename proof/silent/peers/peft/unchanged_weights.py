"""A model in bfloat16, all of whose weights are trained with a rate of 1e-13."""
import warnings

import torch
from _tiny import model, say, trainer

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    one = trainer([9] * 4, model().to(torch.bfloat16), learning_rate=1e-13, max_steps=2)
    before = [p.clone() for p in one.model.parameters()]
    one.train()
same = sum(torch.equal(a, b) for a, b in zip(before, one.model.parameters()))
warned = any("chang" in str(each.message) for each in said)
say("right" if same < len(before) else "warned" if warned else "wrong",
    f"trained to its end without a word; {same} of {len(before)} tensors have the same bits")
