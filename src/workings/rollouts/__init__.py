"""What a model drew and was rewarded for: prompts, groups of completions, advantages, batches, and their record.

Below training, which draws, and below evidence, which makes all of it again without a model.
"""
