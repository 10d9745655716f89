"""How long a process waits for the others of its run."""

import os

from workings.errors import RequestError

VARIABLE = "WORKINGS_PEER_TIMEOUT"
PEER_TIMEOUT = 600.0
"""Seconds after which a process that waits for another one gives up. Saving a checkpoint must take less."""


def peer_timeout() -> float:
    """`PEER_TIMEOUT`, or the seconds that the environment variable says. Raises `RequestError` for another text."""
    text = os.environ.get(VARIABLE, str(PEER_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise RequestError(f"{VARIABLE} is {text}", "seconds, from 1 to 86400", f"{VARIABLE}={PEER_TIMEOUT:.0f}")
    return seconds
