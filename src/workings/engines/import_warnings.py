"""Hides harmless messages that native libraries print while a framework is imported."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NOISE = (b"All log messages before absl::InitializeLog() is called are written to STDERR",
         b"Could not find cuda drivers on your machine, GPU will not be used",
         b"could not determine TPU accelerator type", b"Logging before InitGoogle() is written to STDERR",
         b"from env var TPU_WORKER_HOSTNAMES", b"=== Source Location Trace: ===", b"libtpu_init_utils.cc")
"""Lines that plugins for CUDA and TPUs write on machines without such hardware."""
_set_aside: list[int] = []
"""File descriptor of the true standard error, while `without_noise` redirects descriptor 2."""


def error_stream() -> int:
    """File descriptor of the true standard error, for a process that ends at once."""
    return _set_aside[0] if _set_aside else 2


@contextmanager
def without_noise() -> Iterator[None]:
    """Within this context keep standard error in a file; at the end write all lines but `NOISE`."""
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        # C++ writes to the descriptor and not to Python's `sys.stderr`.
        true_stderr = os.dup(2)
        _set_aside.append(true_stderr)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(true_stderr, 2)
            _set_aside.remove(true_stderr)
            os.close(true_stderr)
            kept.seek(0)
            os.write(2, b"".join(line for line in kept if not any(noise in line for noise in NOISE)))
