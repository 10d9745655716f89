"""Scores texts: extracts the answer, compares it, checks form and steps; in a separate process.

Below training and evaluation, because a reward and a score are the same thing: a function of an item and a text.
"""
