"""A trained adapter merged by `axolotl merge-lora`: the merged folder, next to the run's model."""
import tempfile

import torch
from _tiny import LORA, SUM, config, folder, run, say
from axolotl.cli.merge_lora import do_merge_lora
from transformers import LlamaForCausalLM

place, ids = folder(), torch.arange(97, 117)[None]
asked = LORA | {"output_dir": tempfile.mkdtemp()}
tuned = run(SUM * 5, place, **asked, max_steps=5, learning_rate=0.1).model.eval()(ids).logits
do_merge_lora(cfg=config(SUM, place, **asked, lora_model_dir=asked["output_dir"]))
first, after = (LlamaForCausalLM.from_pretrained(one, dtype=torch.float32)(ids).logits
                for one in (place, f"{asked['output_dir']}/merged"))
apart, moved = ((tuned - x).abs().max().item() for x in (after, first))
say("right" if apart < 1e-3 < moved else "wrong",
    f"logits differ by {apart:.1e} after the merge; training moved them by {moved:.2f}")
