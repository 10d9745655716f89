"""Environment of a child process that measures an engine."""

NOTHING_KEPT = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
"""It compiles for itself, whatever earlier runs have kept."""
