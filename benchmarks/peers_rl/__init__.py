"""Whole updates of reinforcement learning with verifiable rewards next to TRL's and Tunix's GRPO."""
