"""Greedy answers of `soup infer` to five prompts, alone and in one batch."""
from _tiny import folder, say
from soup_cli.commands.infer import _generate_batch
from transformers import AutoTokenizer, LlamaForCausalLM

place = folder(shape={"initializer_range": 0.3})
model, tokens = LlamaForCausalLM.from_pretrained(place), AutoTokenizer.from_pretrained(place)
prompts = ["abc", "x" * 40, "hello world", "zz top", "q"]
together = _generate_batch(model, tokens, prompts, max_tokens=12, temperature=0)
same = [_generate_batch(model, tokens, [prompt], max_tokens=12, temperature=0) == [answer]
        for prompt, answer in zip(prompts, together)]
say("right" if all(same) else "wrong", f"{sum(same)} of {len(prompts)} answers are equal, {len({*together})} are different ones")
