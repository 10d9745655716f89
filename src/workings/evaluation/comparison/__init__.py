"""Comparison of scorecards: are they comparable, how much do they differ, and is that more than noise?"""
