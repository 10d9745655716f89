"""A trained adapter merged by `save_pretrained_merged`, and opened again."""
import tempfile

import torch
from _tiny import CHATML, loaded, model_folder, say, trainer, turns

place, ids = model_folder(CHATML), torch.arange(97, 117)[None]
one = trainer([turns("ab", "c" * 9)] * 5, place, max_steps=5, learning_rate=0.1)
one.train()
one.model.save_pretrained_merged(out := tempfile.mkdtemp(), one.processing_class)
with torch.no_grad():
    tuned = one.model.eval()(ids).logits
    first, after = (loaded(where, {})[0].eval()(ids).logits for where in (place, out))
apart, moved = ((tuned - x).abs().max().item() for x in (after, first))
say("right" if apart < 0.05 * moved else "wrong",
    f"logits differ by {apart:.1e} after the merge to 16 bits; training moved them by {moved:.2f}")
