"""How similar two completions of one prompt are."""

from functools import lru_cache

from workings.data.checking.overlap import words

PASSAGE = 3
"""Words of a passage."""


def similarity(one: str, other: str) -> float:
    """Share of their three-word passages that two texts have in common (Jaccard), from 0 to 1.

    Case, white space and punctuation do not count; numbers do.
    """
    a, b = _passages(one), _passages(other)
    # Two texts without any word cannot be told apart.
    return len(a & b) / len(a | b) if a | b else 1.0


# A text is compared with every kept one of its prompt, and then never again.
@lru_cache(maxsize=1024)
def _passages(text: str) -> frozenset[tuple[str, ...]]:
    # A text shorter than a passage is one passage by itself; a text without words has none.
    tokens = words(text)
    return frozenset(tuple(tokens[at:at + PASSAGE]) for at in range(max(1, len(tokens) - PASSAGE + 1)) if tokens)
