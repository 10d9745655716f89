"""A long prompt is cut so that no learned token is left: 0/0, and an adapter of NaNs is saved.

Reported: trl#3927, trl#6025, unsloth#2900, Soup#532.
"""

from proof.silent._harness import Found, Trace, gemma, refused, rows_of


def check() -> Found:
    """A row that is longer than the limit is refused, not cut."""
    long = Trace(id="long", prompt="1+1? " * 40, steps=(), answer="2")
    return refused(lambda: rows_of(gemma(), long, max_length=32), "trace long", "data.max_length is 32")
