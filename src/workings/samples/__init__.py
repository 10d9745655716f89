"""Samples of a model for training: which are kept as traces, and which make preference pairs."""
