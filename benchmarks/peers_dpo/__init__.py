"""Learning from preference pairs beside TRL."""
