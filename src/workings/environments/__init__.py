"""Environments: programs that answer a model's texts turn by turn, with a reward for each turn.

An environment has no weights, so a verifier can replay every recorded episode.
"""
