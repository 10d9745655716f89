"""Tests that use JAX run on the CPU, with any devices of the machine."""

import jax

jax.config.update("jax_platforms", "cpu")
