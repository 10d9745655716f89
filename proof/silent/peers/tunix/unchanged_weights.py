"""All weights in bfloat16 with a rate of 1e-13."""
import warnings

from _tiny import apart, jax, model, nnx, optax, rows, say, sft


def narrow():
    made = model()
    nnx.update(made, jax.tree.map(lambda x: x.astype(jax.numpy.bfloat16), nnx.state(made, nnx.Param)))
    return made


with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    moved = apart(sft([rows(8)] * 2, optax.adamw(1e-13), narrow()), narrow())
warned = any("chang" in str(one.message) for one in said)
say("right" if moved else "warned" if warned else "wrong", f"trained to its end without a word; weights moved by {moved}")
