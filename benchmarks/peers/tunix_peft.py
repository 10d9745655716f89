"""Tunix's `PeftTrainer` as one contender: ``python -m benchmarks.peers.tunix_peft FOLDER SETTINGS``.

Its own `train` on Tunix's own Gemma with its default loss; `PeftTrainer` takes batches as they come, so padding and
grouping are the caller's: rows padded to the longest row allowed, or (its best) grouped into lengths.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import Meter, two_threads

STARTED = time.time()
two_threads()

from importlib.metadata import version  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from flax import nnx  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig  # noqa: E402

from benchmarks.peers.case import batches_of, read_shape  # noqa: E402
from workings.engines.tunix.bridge import to_tunix  # noqa: E402
from workings.engines.tunix.trainer import model_class, model_input  # noqa: E402
from workings.models.batch import Batch  # noqa: E402


def stacked(folder: Path, layers: int) -> dict[str, Any]:
    """The weights file as this project's tree: layers stacked."""
    tensors = load_file(folder / "weights" / "model.safetensors")
    tree: dict[str, Any] = {name: jnp.asarray(x) for name, x in tensors.items() if ".layers." not in name}
    inner = {name.split(".", 3)[3] for name in tensors if ".layers." in name}
    tree["layers"] = {name: jnp.stack([tensors[f"model.layers.{i}.{name}"] for i in range(layers)])
                      for name in inner}
    return tree


def example(batch: Batch) -> dict[str, np.ndarray]:
    """A batch as `model_input` takes it; Tunix's mask is at the token, our loss mask one before."""
    return {"tokens": batch.tokens[0], "supervised": np.roll(batch.loss_mask[0], 1, -1), "real": batch.segment_ids[0]}


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter, shape = Meter(STARTED), read_shape(folder)
    model = model_class(shape)()
    ours = to_tunix(stacked(folder, shape.layers), shape=shape)
    state = nnx.state(model)
    for place, variable in nnx.to_flat_state(state):
        variable.set_value(ours[place])
    nnx.update(model, state)
    rule = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(settings["learning_rate"], weight_decay=0.0))
    trainer = PeftTrainer(model, rule, TrainingConfig(eval_every_n_steps=10**9, max_steps=None))
    trainer.with_gen_model_input_fn(lambda inputs: model_input(**inputs))
    trainer.is_managed_externally = True  # several calls of `train` with one trainer
    losses: list[Any] = []
    trainer._post_process_train_step = lambda aux: losses.append(trainer._buffered_train_metrics.losses[-1])
    every = batches_of(folder, settings)
    shapes: dict[tuple[int, ...], Batch] = {batch.tokens.shape: batch for batch in every}
    trainer.train([example(next(iter(shapes.values())))])
    meter.first_step()
    trainer.train([example(batch) for batch in shapes.values()])

    def measured() -> Iterator[dict[str, np.ndarray]]:
        for batch in every:
            meter.count(batch.supervised_tokens, batch.real_tokens, batch.tokens.size)
            yield example(batch)

    jax.block_until_ready(nnx.state(trainer.model))
    losses.clear()
    meter.start()
    trainer.train(measured())
    jax.block_until_ready(nnx.state(trainer.model))
    meter.stop()
    meter.losses = [float(x) for x in losses]
    meter.report({name: version(name) for name in ("google-tunix", "jax", "flax", "optax")})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
