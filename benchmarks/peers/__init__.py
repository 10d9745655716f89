"""Supervised tokens per second and peak memory of both engines next to TRL's `SFTTrainer` and Tunix's `PeftTrainer`."""
