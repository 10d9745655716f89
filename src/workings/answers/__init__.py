"""What a text answers: found by ordered rules, and compared with what was expected.

Below data and scoring, because an answer that is imported, checked, rewarded or scored is found by the same rules.
"""
