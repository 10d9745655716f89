"""Environment of a child process that measures an engine."""

NOTHING_KEPT = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
"""It compiles its own programs; those of earlier runs are not used."""
