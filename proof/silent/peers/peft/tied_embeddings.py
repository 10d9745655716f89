"""An adapter on an output matrix that is tied to the embedding: trained, merged, saved and opened again."""
import tempfile
import warnings

import torch
from _tiny import model, say
from peft import LoraConfig, get_peft_model
from transformers import LlamaForCausalLM

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    config = LoraConfig(target_modules=["lm_head"], init_lora_weights=False)
    tuned = get_peft_model(model(tie_word_embeddings=True), config)
    ids = torch.arange(20)[None]
    before = tuned(ids).logits
    merged = tuned.merge_and_unload()
    merged.save_pretrained(folder := tempfile.mkdtemp())
    after = LlamaForCausalLM.from_pretrained(folder)(ids).logits
apart = (before - after).abs().max().item()
warned = any("tie" in str(one.message).lower() for one in said)
say("right" if apart < 1e-3 else "warned" if warned else "wrong",
    f"logits of the run and of the opened folder differ by {apart:.2g}; warned of tied weights: {warned}")
