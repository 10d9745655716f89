"""An adapter asked for on an output matrix that is tied to the embedding: trained, merged and opened again."""
import tempfile
import warnings

import torch
from _tiny import CHATML, loaded, model_folder, say, trainer, turns

place, ids = model_folder(CHATML, None, {"tie_word_embeddings": True}), torch.arange(97, 117)[None]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    one = trainer([turns("ab", "c" * 9)] * 5, place, {"r": 4, "target_modules": ["q_proj", "lm_head"]}, max_steps=5, learning_rate=0.05)
    one.train()
    one.model.save_pretrained_merged(out := tempfile.mkdtemp(), one.processing_class)
with torch.no_grad():
    tuned = one.model.eval()(ids).logits
    first, after = (loaded(where, {})[0].eval()(ids).logits for where in (place, out))
apart, moved = ((tuned - x).abs().max().item() for x in (after, first))
warned = any("tie" in str(each.message).lower() for each in said)
say("right" if apart < 0.05 * moved else "warned" if warned else "wrong", f"logits of the run and of the merged folder "
    f"differ by {apart:.2g}, training moved them by {moved:.2g}; warned of tied weights: {warned}")
