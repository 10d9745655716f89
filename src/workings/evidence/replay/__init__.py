"""Replay: recomputes steps of a run from one of its checkpoints, and compares the results with the recorded ones.

This is the one part of `evidence` that reaches an engine.
"""
