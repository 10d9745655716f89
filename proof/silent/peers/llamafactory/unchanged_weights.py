"""All weights trained in float32 with a rate of 1e-20; `pure_bf16` asks for a device that has it."""
import io
import logging

import torch
from _tiny import folder, say, trained, weights

said, place = io.StringIO(), folder()
logging.getLogger("llamafactory").addHandler(logging.StreamHandler(said))
_, out = trained([{"instruction": "ab", "input": "", "output": "c" * 9}] * 4, place, learning_rate=1e-20,
                 max_steps=2)
before, after = weights(place), weights(out)
same = sum(torch.equal(values, before[name].to(values.dtype)) for name, values in after.items())
say("right" if same < len(after) else "warned" if "chang" in said.getvalue() else "wrong", f"trained to its end without a "
    f"word; {same} of {len(after)} tensors have the same bits in {next(iter(after.values())).dtype} at a rate of 1e-20")
