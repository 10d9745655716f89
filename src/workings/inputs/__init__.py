"""Finds what a recipe names: data sets, weights, tokenizers, in files, packages, object stores or on the Hub."""
