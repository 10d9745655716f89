"""Where this person's own files lie on this machine."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """What can be made again: ``WORKINGS_CACHE``, or ``workings`` in the person's cache directory."""
    own = os.environ.get("WORKINGS_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workings"
