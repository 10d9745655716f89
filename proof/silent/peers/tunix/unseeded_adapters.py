"""The same model is given adapters twice in one process."""
import jax
import numpy as np
from _tiny import model, say
from flax import nnx
from tunix.cli.utils.model import apply_lora_to_model

np.random.seed(1)
made = [jax.tree.leaves(nnx.state(apply_lora_to_model(model(), None, {"module_path": ".*(q|kv)_proj", "rank": 2,
                                                                      "alpha": 4.0}), nnx.LoRAParam)) for _ in "ab"]
same = all((a == b).all() for a, b in zip(*made, strict=True))
say("right" if made[0] and same else "wrong", f"{len(made[0])} tensors of adapters are equal: {same}")
