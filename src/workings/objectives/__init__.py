"""Objectives of training: one file for each, with the same arithmetic for every engine."""
