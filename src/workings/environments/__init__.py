"""Environments: worlds in which a model acts by writing texts, turn by turn, with a reward for each turn.

An environment is code without weights, so a verifier can replay every recorded episode.
"""
