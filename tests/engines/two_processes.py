"""One of two processes with one device each, over loopback.

Prints one JSON object. Usage: python -m tests.engines.two_processes ADDRESS INDEX LOAD SAVE FIRST. Resumes from the
checkpoint in LOAD for three steps from number FIRST on, saves to SAVE, prints the losses; then `rewarded_adapters`.
"""

import json
import sys
from pathlib import Path

import jax
from jax.experimental import multihost_utils

from tests.engines.eight_devices import METHODS, curve, engine
from tests.engines.tiny import rewarded_adapters
from workings.objectives.policy_gradient import PolicyGradient


def main(address: str, index: str, load: str, save: str, first: str) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=int(index))
    e = engine("2")
    assert e.layout.shape.devices == 2
    assert jax.process_count() == 2
    state, losses = curve(e, e.restore(Path(load)), 3, int(first))
    e.save(state, Path(save))
    e.save_shards(state, Path(save) / "shards")
    multihost_utils.sync_global_devices("the other process's shards are there")
    resumed = curve(e, e.restore(Path(save) / "shards"), 2, int(first) + 3)[1]
    after = curve(e, state, 2, int(first) + 3)[1]
    rewarded = rewarded_adapters(engine("2", method=METHODS["lora"], objective=PolicyGradient()))
    sys.stdout.write(json.dumps({"losses": losses, "after": after, "resumed": resumed,
                                 "wrote": jax.process_index() == 0, "rewarded": rewarded}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
