"""Memory of a step without running it: the very step under fake tensors, every storage followed from birth to death."""
