"""Rollouts: prompts, groups of sampled completions, rewards, advantages, batches, and their record."""
