"""More devices than eight: each gives fewer positions to a turn, and losses, gradients and rows stay the same."""

import json

CODE = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding
from workings.engines.jax import embedding
from workings.engines.jax.loss import LossPartition, split_loss_sum
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from tests.engines.tiny import reference_loss_sum

layout = Layout(Mesh(np.array(jax.devices()).reshape(16, 1), (FSDP, TP)))
embedding.GATHERED = 32
rng = np.random.default_rng(0)
B, S, D, V = 16, 5, 8, 128
hidden, head = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((B, S, D), (V, D)))
targets = jnp.asarray(rng.integers(0, V, (B, S)))
weights = jnp.asarray(rng.integers(0, 2, (B, S)), jnp.float32)
rows, own = NamedSharding(layout.mesh, P(FSDP)), NamedSharding(layout.mesh, P((FSDP, TP)))
partition = LossPartition(layout, 4, 0.0, True)
placed = [jax.device_put(x, to) for x, to in ((hidden, rows), (head, own), (targets, rows), (weights, rows))]
step = jax.jit(jax.value_and_grad(lambda *x: split_loss_sum(partition, *x), argnums=(0, 1)))
ours, lowered = step(*placed), step.lower(*placed).as_text()
plain = jax.value_and_grad(reference_loss_sum, argnums=(0, 1))(hidden, head, targets, weights)
looked = jax.jit(jax.value_and_grad(lambda table, tokens: (embedding.split_lookup(layout, table, tokens) ** 2).sum()))
table = looked(placed[1], placed[2])
direct = jax.value_and_grad(lambda table: (table[targets] ** 2).sum())(head)
print(json.dumps({
    "loss": float(abs(ours[0] / plain[0] - 1)),
    "gradients": [float(abs(a - b).max()) for a, b in zip(ours[1], plain[1])],
    "rows": [float(abs(table[0] / direct[0] - 1)), float(abs(table[1] - direct[1]).max())],
    "gathered": f"tensor<32x{D}xf32>" in lowered, "whole_chunks": f"tensor<64x{D}xf32>" in lowered}))
"""


def test_sixteen_devices_gather_no_more_than_eight(run_forked, repository) -> None:
    found = json.loads(run_forked("-c", CODE, devices=16, cwd=repository).stdout.splitlines()[-1])
    assert found["loss"] < 1e-6
    assert max(found["gradients"]) < 1e-5
    assert max(found["rows"]) < 1e-5
    assert (found["gathered"], found["whole_chunks"]) == (True, False), "2 of 4 positions each"
