"""A model in bfloat16, all of whose weights are trained with a rate of 1e-13."""
import warnings

import torch
from _tiny import say, trainer, turns

one = trainer([turns("ab", "c" * 9)] * 4, lora={}, asked={"dtype": "bfloat16"}, learning_rate=1e-13, max_steps=2)
before = [p.clone() for p in one.model.parameters()]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    one.train()
warned = any("chang" in str(each.message) for each in said)
same = sum(torch.equal(a, b) for a, b in zip(before, one.model.parameters()))
say("right" if same < len(before) else "warned" if warned else "wrong",
    f"trained to its end without a word; {same} of {len(before)} tensors have the same bits in {before[0].dtype}")
