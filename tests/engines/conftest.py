"""The engine tests run on the CPU, whatever the machine has: an installed libtpu would otherwise be started by the
first array and ask a metadata server for minutes."""

import jax

jax.config.update("jax_platforms", "cpu")
