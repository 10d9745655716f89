"""Finds the data sets, weights and tokenizers of a recipe: in files, packages, object stores or on the Hub."""
