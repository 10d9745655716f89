"""Trained numbers of an adapter's run, and of the run that is resumed from its checkpoint; the base afterwards."""
import tempfile

from _tiny import jax, model, nnx, rows, say, sft
from tunix.cli.utils.model import apply_lora_to_model


def adapted():
    return apply_lora_to_model(model(), None, {"module_path": ".*(q|kv)_proj", "rank": 2, "alpha": 4.0})


def base(one):
    """Bits of what is no adapter."""
    return [value for path, value in nnx.to_flat_state(nnx.state(one, nnx.Param)) if "lora" not in str(path)]


folder = tempfile.mkdtemp()
one = sft([rows(8)] * 2, trained=adapted(), checkpoint_root_directory=folder)
again = sft([rows(8)] * 4, trained=adapted(), checkpoint_root_directory=folder)
counts = [sum(x.size for x in jax.tree.leaves(nnx.state(made.optimizer.opt_state))) + sum(
    x.size for x in jax.tree.leaves(nnx.state(made.model, made.optimizer.wrt))) for made in (one, again)]
same = all((a[...] == b[...]).all() for a, b in zip(base(model()), base(again.model), strict=True))
say("right" if counts[0] == counts[1] and same else "wrong", f"{counts[0]} and {counts[1]} trained numbers after {again.train_steps} steps; "
    f"the base has the same bits: {same}")
