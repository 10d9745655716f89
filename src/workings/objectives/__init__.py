"""Objectives of training, with the same arithmetic for every engine."""
