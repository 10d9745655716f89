"""A model in bfloat16 with a rate of 1e-13."""
import io
import logging

import torch
from _tiny import model, say, sft

said = io.StringIO()
logging.getLogger("trl").addHandler(logging.StreamHandler(said))
trainer = sft([{"prompt": "ab", "completion": "c" * 9}] * 4, model().to(torch.bfloat16), learning_rate=1e-13, max_steps=2)
before = [p.clone() for p in trainer.model.parameters()]
trainer.train()
same = sum(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters()))
say("right" if same < len(before) else "warned" if "chang" in said.getvalue() else "wrong",
    f"trained to its end without a word; {same} of {len(before)} tensors have the same bits")
