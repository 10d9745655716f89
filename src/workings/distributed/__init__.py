"""Several processes of one run: a process group, and calls from its coordinator to the workers."""
