"""What a text is worth: answer extracted, judged, in its form, its steps checked; in its own process.

Below training and evaluation, because a reward and a score are the same thing: a function of an item and a text.
"""
