"""What an update minimizes: one small file an objective, the same arithmetic for every engine."""
