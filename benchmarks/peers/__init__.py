"""Supervised tokens a second and peak memory of both engines beside TRL's `SFTTrainer` and Tunix's `PeftTrainer`."""
