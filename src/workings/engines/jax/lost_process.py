"""The end of a process whose coordinator is gone: one sentence and an exit code, where JAX aborts (SIGABRT).

A thread of JAX's C++ runtime hears that the coordinator is gone. It calls the client's ``missed_heartbeat_callback``,
which by default aborts the process. `jax.distributed.initialize` cannot set another one, and jaxlib 0.10.2 cannot call
one of Python: it cannot translate the argument, and the exception ends in C++'s terminate handler. So both are set.
"""

import ctypes
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from workings.engines.import_warnings import error_stream
from workings.errors import PEER_GONE, Interrupted

GRACE_SECONDS = 15.0
"""Seconds in which the main thread, whose call breaks as well, may clean up and say more than this thread can."""


def _leave(*_: object) -> None:
    time.sleep(GRACE_SECONDS)
    os.write(error_stream(), f"error: {PEER_GONE}\n".encode())
    os._exit(Interrupted.exit_code)


_TERMINATE = ctypes.CFUNCTYPE(None)(_leave)
"""Kept, because C++ holds only its address."""


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """A client of JAX's coordinator that is made within this context ends its process in order."""
    if sys.platform == "linux":
        ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(_TERMINATE)
    jaxlib: Any = importlib.import_module("jaxlib._jax")  # the callback has no public name
    make = jaxlib.get_distributed_runtime_client
    jaxlib.get_distributed_runtime_client = partial(make, missed_heartbeat_callback=_leave)
    try:
        yield
    finally:
        jaxlib.get_distributed_runtime_client = make
