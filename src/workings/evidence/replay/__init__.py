"""Replay: steps of a run taken again from one of its checkpoints, and whether the same comes out.

This is the one part of `evidence` that reaches an engine.
"""
