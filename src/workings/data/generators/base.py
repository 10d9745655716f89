"""What generators share: their result, and an order of problems that is the same on every machine.

Generators sort by SHA-256 instead of shuffling with `random.Random`, which promises to keep only the numbers of
`random()` from one version of Python to the next. So a seed names the same data for good.
"""

import hashlib
from typing import NamedTuple

from workings.data.traces import Trace


class Generated(NamedTuple):
    """Traces to learn from, and others whose questions are evaluation items. No problem is in both."""

    traces: list[Trace]
    held_out: list[Trace]


def rank(*parts: object) -> bytes:
    """SHA-256 of the parts joined by `/`, as 32 bytes: sorting by it shuffles."""
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
