"""Whole updates of reinforcement learning with verifiable rewards beside TRL's and Tunix's GRPO."""
