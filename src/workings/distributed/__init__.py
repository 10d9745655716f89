"""What several processes of one run need: a process group, and calls from its coordinator to the workers."""
