"""A trained adapter merged by `export_model`: the merged folder, next to PEFT's own reading of base and adapter."""
import tempfile

import torch
from _tiny import folder, say, trained
from llamafactory.train.tuner import export_model
from peft import PeftModel
from transformers import LlamaForCausalLM

place, ids = folder(), torch.arange(97, 117)[None]
_, out = trained([{"instruction": "ab", "input": "", "output": "c" * 9}] * 4, place, finetuning_type="lora",
                 lora_target="q_proj,down_proj", max_steps=5, learning_rate=0.1)
export_model({"model_name_or_path": place, "adapter_name_or_path": out, "template": "qwen", "finetuning_type": "lora",
              "export_dir": (merged := tempfile.mkdtemp()), "export_device": "cpu", "infer_dtype": "float32"})
base = LlamaForCausalLM.from_pretrained(place, dtype=torch.float32)
first = base(ids).logits
tuned = PeftModel.from_pretrained(base, out)(ids).logits
after = LlamaForCausalLM.from_pretrained(merged, dtype=torch.float32)(ids).logits
apart, moved = ((tuned - x).abs().max().item() for x in (after, first))
say("right" if apart < 1e-3 < moved else "wrong",
    f"logits differ by {apart:.1e} after the merge; training moved them by {moved:.2f}")
