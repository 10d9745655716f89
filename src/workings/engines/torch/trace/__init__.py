"""Memory of a step without running it: the step runs on fake tensors, and every storage is followed."""
