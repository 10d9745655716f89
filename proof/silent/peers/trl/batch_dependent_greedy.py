"""Greedy answers to six prompts, alone and together with padding on the left."""
import torch
from _tiny import model, say, tokenizer

tokens, made = tokenizer(padding_side="left"), model(initializer_range=0.2)
prompts = ["abc", "x" * 40, "hello world", "zz top", "some more text", "q"]
asked = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 258}
together = made.generate(**tokens(prompts, padding=True, return_tensors="pt", return_token_type_ids=False), **asked)
alone = [made.generate(**tokens(one, return_tensors="pt", return_token_type_ids=False), **asked)[0, -12:]
         for one in prompts]
same = [torch.equal(a, b[-12:]) for a, b in zip(alone, together)]
say("right" if all(same) else "wrong", f"{sum(same)} of 6 answers are equal")
