"""One of two processes with one device each, over loopback.

Prints one JSON object. Usage: python -m tests.engines.two_processes ADDRESS INDEX LOAD SAVE FIRST. Goes on from the
checkpoint in LOAD for three steps from number FIRST on, saves to SAVE, prints the losses.
"""

import json
import sys
from pathlib import Path

import jax

from tests.engines.eight_devices import curve, engine


def main(address: str, index: str, load: str, save: str, first: str) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=int(index))
    e = engine("2")
    assert e.layout.size == 2
    assert jax.process_count() == 2
    state, losses = curve(e, e.restore(Path(load)), 3, int(first))
    e.save(state, Path(save))
    sys.stdout.write(json.dumps({"losses": losses, "wrote": jax.process_index() == 0}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
