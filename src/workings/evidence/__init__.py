"""Evidence: what lets a stranger check a run."""
