"""An adapter on an output matrix that is tied to the embedding: trained, merged by `axolotl merge-lora` and opened."""
import tempfile
import warnings

import torch
from _tiny import LORA, SUM, config, folder, run, said, say
from axolotl.cli.merge_lora import do_merge_lora
from transformers import LlamaForCausalLM

place, ids = folder(), torch.arange(97, 117)[None]
LlamaForCausalLM.from_pretrained(place, tie_word_embeddings=True).save_pretrained(place)
asked = LORA | {"lora_target_modules": ["lm_head"], "output_dir": tempfile.mkdtemp()}
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    tuned = run(SUM * 5, place, **asked, max_steps=5, learning_rate=0.1).model.eval()(ids).logits
    do_merge_lora(cfg=config(SUM, place, **asked, lora_model_dir=asked["output_dir"]))
after = LlamaForCausalLM.from_pretrained(f"{asked['output_dir']}/merged", dtype=torch.float32)(ids).logits
apart = (tuned - after).abs().max().item()
named = "tied" in said.getvalue() or any("tie" in str(one.message).lower() for one in warned)
say("right" if apart < 1e-3 else "warned" if named else "wrong",
    f"logits of the run and of the merged folder differ by {apart:.2g}; warned of tied weights: {named}")
