"""Rollouts: prompts, groups of sampled completions, rewards, advantages, batches, and their record.

Below training, which samples, and below evidence, which computes everything but the completions again without a model.
"""
