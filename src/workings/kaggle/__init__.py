"""Kaggle: a notebook, its script twin and its settings, from a recipe."""
