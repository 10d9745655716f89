"""Intervals and tests, each in a few lines, each checked against statsmodels and by simulation."""
