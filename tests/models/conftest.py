"""Tests that use JAX run on the CPU, whatever the machine has."""

import jax

jax.config.update("jax_platforms", "cpu")
