"""Shared by all generators: an order that is the same on every machine.

`random.Random` promises its stream only for `random()`; generators sort by SHA-256 instead, so that a seed names the
same data for good, on every machine and in every version of Python.
"""

import hashlib


def rank(*parts: object) -> bytes:
    """SHA-256 of the parts joined by `/`, as 32 bytes: sorting by it shuffles."""
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
