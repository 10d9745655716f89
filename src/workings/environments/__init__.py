"""Environments: worlds that a model acts in by writing texts, turn by turn, and what they give for each turn.

An environment is code without weights, so a verifier plays every recorded episode again.
"""
