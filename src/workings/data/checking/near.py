"""Near duplicates: nearly the same words and exactly the same numbers (MinHash, Broder 1997, with banding).

Problems of one template differ in their numbers alone; they are other problems, not duplicates, so texts are compared
within groups of equal numbers only. Candidates that share a band are then compared exactly.
"""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from workings.data.checking.text import numbers

BANDS, ROWS = 32, 4
"""128 hash functions; two texts of similarity s share a band with probability 1 - (1 - s**4)**32: 1.00 at 0.8, 0.41
at 0.4."""
SIMILARITY = 0.8
"""Jaccard similarity of the three-word passages from which texts count as near duplicates."""
_SHINGLE = 3
_PRIME = np.uint64((1 << 31) - 1)  # products of two residues stay below 2 ** 62


def near_duplicates(texts: Sequence[list[str]]) -> Iterator[tuple[int, int, float]]:
    """Pairs (later, earlier, similarity) of near duplicates; each text is named with its nearest earlier one.

    Args:
        texts: as words (`workings.data.checking.text.words`).

    Cost: about 60 microseconds a text and 128 hashes; memory 130 bytes a text.
    """
    draw = np.random.Generator(np.random.PCG64(0))  # which functions they are does not change what is found, only luck
    factors = draw.integers(1, int(_PRIME), BANDS * ROWS, dtype=np.uint64)
    offsets = draw.integers(0, int(_PRIME), BANDS * ROWS, dtype=np.uint64)
    bands: dict[tuple[object, ...], list[int]] = {}
    shingles: list[frozenset[int]] = []
    for number, text in enumerate(texts):
        own = _shingles(text)
        shingles.append(own)
        if not own:
            continue
        hashes = np.fromiter(own, np.uint64, len(own))[:, None]
        signature = ((hashes * factors + offsets) % _PRIME).min(axis=0).reshape(BANDS, ROWS)
        candidates: set[int] = set()
        group = numbers(text)
        for band, row in enumerate(signature):
            members = bands.setdefault((group, band, row.tobytes()), [])
            candidates.update(members[:50])  # a crowd of equal texts is named by its first ones
            members.append(number)
        best = max(((_jaccard(own, shingles[other]), -other) for other in candidates), default=(0.0, 0))
        if best[0] >= SIMILARITY:
            yield number, -best[1], best[0]


def _shingles(text: Sequence[str]) -> frozenset[int]:
    pieces = [" ".join(text[at:at + _SHINGLE]) for at in range(max(len(text) - _SHINGLE + 1, 1 if text else 0))]
    return frozenset(zlib.crc32(piece.encode()) % int(_PRIME) for piece in pieces)


def _jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    return len(a & b) / len(a | b)
