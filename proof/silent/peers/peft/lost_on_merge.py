"""A trained adapter merged into the weights, saved and opened again."""
import tempfile

import torch
from _tiny import say, trainer
from transformers import LlamaForCausalLM

one = trainer([9] * 40, max_steps=5, learning_rate=0.1)
ids = torch.arange(97, 117)[None]
first = one.model.eval()(ids).logits
one.train()
before = one.model.eval()(ids).logits
one.model.merge_and_unload().save_pretrained(folder := tempfile.mkdtemp())
after = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)(ids).logits
apart, moved = ((before - x).abs().max().item() for x in (after, first))
say("right" if apart < 1e-3 < moved else "wrong",
    f"logits differ by {apart:.1e} after the merge; training moved them by {moved:.2f}")
