"""Greedy answers to six prompts, alone and together, after `for_inference`."""
import torch
from _tiny import CHATML, FastLanguageModel, loaded, model_folder, say

model, tokens = loaded(model_folder(CHATML, None, {"initializer_range": 0.2}))
FastLanguageModel.for_inference(model)
prompts = ["abc", "x" * 40, "hello world", "zz top", "some more text", "q"]
asked = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 258}
together = model.generate(**tokens(prompts, padding=True, return_tensors="pt", return_token_type_ids=False), **asked)
alone = [model.generate(**tokens(one, return_tensors="pt", return_token_type_ids=False), **asked)[0, -12:] for one in prompts]
same = [torch.equal(one, other[-12:]) for one, other in zip(alone, together)]
say("right" if all(same) else "wrong", f"{sum(same)} of 6 answers are equal, {len({*map(str, alone)})} are different ones")
