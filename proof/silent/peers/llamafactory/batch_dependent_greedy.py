"""Greedy answers of `do_predict` to six prompts, one at a time and in one batch."""
import json
from pathlib import Path

import torch
from _tiny import arguments, folder, run_exp, say
from transformers import LlamaForCausalLM

place = folder()
model = LlamaForCausalLM.from_pretrained(place)
for values in model.parameters():
    torch.nn.init.normal_(values.data, std=0.2) if values.dim() > 1 else None
model.save_pretrained(place)
prompts, found = ["abc", "x" * 40, "hello world", "zz top", "some more text", "q"], []
for size in (1, 6):
    asked = arguments([{"instruction": text, "input": "", "output": "c"} for text in prompts], place, do_train=False,
                      do_predict=True, eval_dataset="rows", predict_with_generate=True, do_sample=False,
                      per_device_eval_batch_size=size, max_new_tokens=12, skip_special_tokens=False)
    run_exp({name: value for name, value in asked.items() if name != "dataset"})
    lines = Path(asked["output_dir"], "generated_predictions.jsonl").read_text().splitlines()
    found.append([json.loads(line)["predict"].replace("<pad>", "") for line in lines])
same = sum(one == other for one, other in zip(*found))
say("right" if same == 6 else "wrong", f"{same} of 6 answers are equal, {len({*found[0]})} are different ones")
