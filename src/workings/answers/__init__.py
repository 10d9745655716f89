"""Finds the answer of a text by ordered rules and compares it with the expected one.

Below data and scoring, because an answer that is imported, checked, rewarded or scored is found by the same rules.
"""
