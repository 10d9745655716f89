"""An adapter on a base of four bits: merged, and reloaded on the weights of 16 bits, as guides do it."""
import tempfile
import warnings

import torch
from _tiny import LORA, model, say
from peft import PeftModel, get_peft_model
from transformers import BitsAndBytesConfig, LlamaForCausalLM

model(hidden_size=64, intermediate_size=128).save_pretrained(base := tempfile.mkdtemp())
four = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32, quantization_config=BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32))
tuned, ids = get_peft_model(four, LORA).eval(), torch.arange(20)[None]
tuned.base_model.model.model.layers[0].mlp.down_proj.lora_B["default"].weight.data.normal_(std=0.2)
tuned.save_pretrained(adapter := tempfile.mkdtemp())
before = tuned(ids).logits
whole = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base, dtype=torch.float32), adapter).merge_and_unload()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    merged = tuned.merge_and_unload()
apart = [(before - one(ids).logits).abs().max().item() for one in (merged, whole)]
warned = any("4-bit" in str(each.message) for each in said)
say("right" if apart[0] < 1e-3 else "warned" if warned else "wrong",
    f"logits differ by {apart[0]:.1e} after the merge (warned: {warned}), by {apart[1]:.1e} on the weights of 16 bits")
