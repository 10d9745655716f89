"""The processes of a run with JAX, connected by `jax.distributed`.

A launcher that JAX knows (Slurm, Open MPI, a TPU pod) starts them, or these variables are set for each process:

    JAX_COORDINATOR_ADDRESS=HOST:PORT JAX_NUM_PROCESSES=N JAX_PROCESS_ID=I workings train …

If the coordinator is gone, JAX aborts a process (SIGABRT). Here the process ends with a sentence and an exit code
instead. For this both the client's ``missed_heartbeat_callback`` and C++'s terminate handler are replaced, because
jaxlib 0.10.2 cannot call a callback in Python and ends in the terminate handler.
"""

import ctypes
import importlib
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from workings.engines.base import Processes
from workings.engines.hardware_probe import peer_timeout, started_apart
from workings.engines.import_warnings import error_stream
from workings.errors import PEER_GONE, DeviceError, Interrupted, RequestError, first_line

GRACE_SECONDS = 15.0
"""Seconds for the main thread, whose call fails as well, to clean up and to report the error."""


def _leave(*_: object) -> None:
    time.sleep(GRACE_SECONDS)
    os.write(error_stream(), f"error: {PEER_GONE}\n".encode())
    os._exit(Interrupted.exit_code)


_TERMINATE = ctypes.CFUNCTYPE(None)(_leave)
"""Stored, because C++ has only its address."""


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """Within this context, JAX makes a client that ends its process in order if the coordinator is gone."""
    if sys.platform == "linux":
        ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(_TERMINATE)
    jaxlib: Any = importlib.import_module("jaxlib._jax")  # the callback has no public name
    make = jaxlib.get_distributed_runtime_client
    jaxlib.get_distributed_runtime_client = partial(make, missed_heartbeat_callback=_leave)
    try:
        yield
    finally:
        jaxlib.get_distributed_runtime_client = make


VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
CLUSTER = "cluster"
"""Value of `JAX_NUM_PROCESSES` that leaves everything to JAX's own detection."""
LAUNCHERS = {"SLURM_STEP_NODELIST": "SLURM_NTASKS", "OMPI_MCA_orte_hnp_uri": "OMPI_COMM_WORLD_SIZE"}
"""Variables by which JAX recognizes a launcher -> its variable with the number of processes."""
TPU_HOSTS = "TPU_WORKER_HOSTNAMES"
PREFIX = "workings/run/"
MIN_BYTES = 1024
"""Smallest size of a broadcast, in bytes."""
HEARTBEAT_SECONDS = 100
"""Longest silence of a process before JAX ends the others."""


class JaxProcesses:
    """`workings.engines.base.Processes` on the coordinator's key-value store and the devices' own collectives."""

    def __init__(self, index: int, count: int, client: Any) -> None:
        self.index, self.count, self.timeout = index, count, peer_timeout()
        self._client = client

    def set(self, key: str, value: bytes) -> None:
        """Store a value."""
        self._client.key_value_set_bytes(PREFIX + key, value, allow_overwrite=True)

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A value as soon as it is there; None after the time limit."""
        try:
            if not seconds:
                return bytes(self._client.key_value_try_get_bytes(PREFIX + key))
            return bytes(self._client.blocking_key_value_get_bytes(PREFIX + key, int(1000 * seconds)))
        except jax.errors.JaxRuntimeError as error:
            # The client has one exception for everything.
            if "NOT_FOUND" in str(error) or "DEADLINE_EXCEEDED" in str(error):
                return None
            raise

    def broadcast(self, value: Any) -> Any:
        """Process 0's value, in every process."""
        data = pickle.dumps(value)
        size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
        padded = np.zeros(max(MIN_BYTES, 1 << (size - 1).bit_length()), np.uint8)
        if self.index == 0:
            padded[:size] = np.frombuffer(data, np.uint8)
        return pickle.loads(multihost_utils.broadcast_one_to_all(padded)[:size].tobytes())  # noqa: S301

    def shutdown(self, *, stopped: bool) -> None:
        """Leave after a stop: otherwise JAX aborts the other processes when this one ends."""
        if stopped:
            jax.distributed.shutdown()


def _arguments() -> dict[str, Any] | None:
    """Arguments of `jax.distributed.initialize`: empty if JAX finds them itself, None for a single process."""
    if os.environ.get("JAX_NUM_PROCESSES") == CLUSTER:
        return {}
    present = [name for name in VARIABLES if name in os.environ]
    if len(present) == len(VARIABLES):
        address, count, index = (os.environ[name] for name in VARIABLES)
        if not (count.isdigit() and index.isdigit() and int(index) < int(count)):
            raise RequestError(f"JAX_NUM_PROCESSES={count} does not fit JAX_PROCESS_ID={index}",
                               "how many processes there are, and this one's index, from 0")
        if int(count) == 1:
            return None
        # The three variables count even inside a Slurm job, which JAX would detect.
        return {"coordinator_address": address, "num_processes": int(count), "process_id": int(index),
                "cluster_detection_method": "deactivate"}
    if os.environ.get("JAX_NUM_PROCESSES") == "1":
        return None
    launched = any(name in os.environ and int(os.environ.get(count, "1")) > 1 for name, count in LAUNCHERS.items())
    if launched or len(os.environ.get(TPU_HOSTS, "").split(",")) > 1:
        return {}
    known = f"a launcher that JAX knows (Slurm, Open MPI, a TPU pod), or all three of {', '.join(VARIABLES)}"
    example = "JAX_COORDINATOR_ADDRESS=HOST:PORT JAX_NUM_PROCESSES=N JAX_PROCESS_ID=I workings train …"
    if present:
        absent = sorted({*VARIABLES} - {*present})
        raise RequestError(f"{', '.join(absent)} must be set, as {', '.join(present)} is", known, example)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RequestError(f"engine jax does not read WORLD_SIZE={os.environ['WORLD_SIZE']}, torchrun's variable",
                           "processes that JAX can bring together",
                           f"engine=torch, or {', '.join(VARIABLES)} for each process")
    if apart := started_apart():
        raise RequestError(f"{apart} started several processes, and JAX cannot connect them", known,
                           f"{example}, or JAX_NUM_PROCESSES=1 for a separate run in each process")
    return None


def join() -> Processes | None:
    """Connect to the other processes of the run, before JAX opens a device; None for a single process."""
    from jax._src.distributed import global_state  # the store has no public name

    if not jax.distributed.is_initialized():
        arguments = _arguments()
        if arguments is None:
            return None
        seconds = int(peer_timeout())
        if arguments.get("process_id") == 0:
            _refuse_taken_port(arguments["coordinator_address"])
        try:
            with leaving_in_order():
                jax.distributed.initialize(
                    **arguments, initialization_timeout=seconds, shutdown_timeout_seconds=seconds,
                    heartbeat_timeout_seconds=min(HEARTBEAT_SECONDS, seconds))
        except (RuntimeError, ValueError) as error:
            # jaxlib cannot translate every error to Python.
            reason = "" if "bad_cast" in str(error) else f": {first_line(error)}"
            raise RequestError(f"the processes did not meet within {seconds} seconds{reason}", "every process of the "
                               "run", "an address of process 0 that all machines can reach") from error
    if global_state.num_processes == 1:
        return None
    return JaxProcesses(global_state.process_id, global_state.num_processes, global_state.client)


def _refuse_taken_port(address: str) -> None:
    """Raise `RequestError` for a port that is in use: JAX's coordinator would end in a segmentation fault."""
    port = address.rpartition(":")[2]
    try:
        socket.create_server(("", int(port))).close()
    except (OSError, OverflowError, ValueError) as error:
        raise RequestError(f"JAX_COORDINATOR_ADDRESS={address} cannot be opened: {first_line(error)}",
                           "a port that is free on the host of process 0", "another port, the same for all") from error


def refuse_unconnected_hosts(devices: tuple[jax.Device, ...]) -> None:
    """Raise `DeviceError` for devices of other hosts that are not connected: XLA would wait for them forever."""
    hosts = {device.process_index for device in devices}
    if len(hosts) > 1 and not jax.distributed.is_initialized():
        raise DeviceError(f"this process sees devices of {len(hosts)} hosts and has not met the others' processes",
                          "the same command on every host, told to meet the others",
                          f"JAX_NUM_PROCESSES={CLUSTER} workings train … on every host")
