"""The engine tests run on the CPU, with any devices of the machine."""

import jax

# An installed libtpu would otherwise be started by the first array and ask a metadata server for minutes.
jax.config.update("jax_platforms", "cpu")
