"""Completions that a model drew, to learn from: which are kept as traces, and which make preference pairs."""
