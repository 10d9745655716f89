"""Evidence: what lets somebody else check a run."""
