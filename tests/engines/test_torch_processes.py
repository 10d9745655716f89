"""The store of PyTorch's processes, where process 0 is stopped."""

import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from torch.distributed import TCPStore

from tests.distributed.killing import free_port
from workings.engines.torch import processes
from workings.engines.torch.processes import TorchProcesses

STORE = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), None, True, wait_for_workers=False)
print("ready", flush=True)
time.sleep(100)
"""


def test_a_process_0_that_is_stopped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own client waits for it for ever."""
    monkeypatch.setattr(processes, "ANSWER_TIMEOUT", 0.5)
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", STORE, str(port)], stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout
            assert first.stdout.readline() == b"ready\n"
            second = TorchProcesses(TCPStore("127.0.0.1", port, None, False, wait_for_workers=False,
                                             timeout=timedelta(seconds=60)), 1, 2)
            second.set("key", b"value")
            assert second.wait("key", 0.0) == b"value"
            assert second.wait("other", 0.0) is None
            first.send_signal(signal.SIGSTOP)
            for again in (second.wait, second.wait):
                with pytest.raises(RuntimeError, match="does not answer"):
                    again("key", 0.0)
            with pytest.raises(RuntimeError, match="does not answer"):
                second.set("key", b"value")
        finally:
            first.kill()
