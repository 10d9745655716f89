"""Greedy answers of a model with an adapter to six prompts, alone and together with padding on the left."""
import torch
from _tiny import model, say
from peft import LoraConfig, get_peft_model

config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
tuned = get_peft_model(model(initializer_range=0.2), config).eval()
prompts = [torch.arange(3, 3 + length) * 7 % 250 + 5 for length in (3, 40, 11, 6, 14, 2)]
asked = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
padded = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True, padding_side="left")
together = tuned.generate(input_ids=padded, attention_mask=(padded != 0).long(), **asked)[:, -12:]
alone = [tuned.generate(input_ids=one[None], attention_mask=torch.ones_like(one)[None], **asked)[0, -12:] for one in prompts]
same = [torch.equal(one, other) for one, other in zip(alone, together)]
say("right" if all(same) else "wrong", f"{sum(same)} of 6 answers are equal, {len({*map(str, alone)})} are different ones")
