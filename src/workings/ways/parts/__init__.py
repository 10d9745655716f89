"""Ways of learning: each makes the batches of its updates."""
