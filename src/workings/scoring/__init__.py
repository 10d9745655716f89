"""What a text is worth: answer extracted, judged, in its form, its steps checked; in a process of its own.

Below training and evaluation, because a reward and a score are the same thing: a function of an item and a text.
"""
