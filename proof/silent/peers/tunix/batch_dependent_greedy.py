"""Greedy answers to four prompts, alone and together with padding on the left."""
from _tiny import SHAPE, model, say
from tunix.generate.sampler import CacheConfig, Sampler


class Letters:
    encode = staticmethod(lambda text: [ord(letter) % 50 + 5 for letter in text])
    decode = staticmethod(lambda ids: " ".join(str(x) for x in ids))
    bos_id, eos_id, pad_id = (staticmethod(lambda number=number: number) for number in (1, 2, 0))


sampler = Sampler(model(), Letters(), CacheConfig(64, SHAPE["num_layers"], SHAPE["num_kv_heads"], SHAPE["head_dim"]))
prompts = ["abc", "x" * 20, "hello world", "q"]
asked = {"max_generation_steps": 10, "max_prompt_length": 32, "eos_tokens": [63]}
together = sampler(prompts, **asked).tokens
alone = [sampler([prompt], **asked).tokens[0] for prompt in prompts]
same = [list(map(int, a)) == list(map(int, b)) for a, b in zip(alone, together, strict=True)]
say("right" if all(same) else "wrong", f"{sum(same)} of {len(same)} answers are equal")
