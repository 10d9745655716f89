"""One of two processes with one device each, over loopback: prints what `rewarded_adapters` gives there as JSON.

Usage: python -m tests.engines.two_processes ADDRESS INDEX
"""

import json
import sys

import jax

from tests.engines.eight_devices import METHODS, engine
from tests.engines.tiny import rewarded_adapters
from workings.objectives.policy_gradient import PolicyGradient

if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
    found = rewarded_adapters(engine("2", method=METHODS["lora"], objective=PolicyGradient()))
    sys.stdout.write(json.dumps(found) + "\n")
