"""An adapter on an output matrix that is tied to the embedding: trained, merged by `export_model` and opened again."""
import io
import logging
import tempfile
import warnings

import torch
from _tiny import folder, say, trained
from llamafactory.train.tuner import export_model
from peft import PeftModel
from transformers import LlamaForCausalLM

place, ids, said = folder(), torch.arange(97, 117)[None], io.StringIO()
model = LlamaForCausalLM.from_pretrained(place, tie_word_embeddings=True)
model.save_pretrained(place)
logging.getLogger("llamafactory").addHandler(logging.StreamHandler(said))
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    _, out = trained([{"instruction": "ab", "input": "", "output": "c" * 9}] * 4, place, finetuning_type="lora",
                     lora_target="lm_head", max_steps=5, learning_rate=0.1)
    export_model({"model_name_or_path": place, "adapter_name_or_path": out, "template": "qwen", "finetuning_type": "lora",
                  "export_dir": (merged := tempfile.mkdtemp()), "export_device": "cpu", "infer_dtype": "float32"})
tuned = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(place, dtype=torch.float32), out)(ids).logits
apart = (tuned - LlamaForCausalLM.from_pretrained(merged, dtype=torch.float32)(ids).logits).abs().max().item()
named = "tie" in said.getvalue() or any("tie" in str(one.message).lower() for one in warned)
say("right" if apart < 1e-3 else "warned" if named else "wrong",
    f"logits of base and adapter and of the merged folder differ by {apart:.2g}; warned of tied weights: {named}")
