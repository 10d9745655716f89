"""Intervals and tests, each in a few lines, each checked against statsmodels and by simulation."""

CONFIDENCE = 0.95
"""Coverage of every interval in a scorecard or comparison."""
