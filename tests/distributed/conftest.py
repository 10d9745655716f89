"""Two process groups in threads of one process: their store, and engines that note what they are asked."""

import pickle
import threading

import pytest

from workings.distributed import calls, process_group
from workings.distributed.process_group import ProcessGroup
from workings.engines.base import DistributedEngine, LossSum, StepResult
from workings.errors import WorkingsError


class ThreadProcesses:
    """`workings.engines.base.Processes` for threads."""

    timeout = 20.0

    def __init__(self, index: int, store: dict[str, bytes], arrived: threading.Condition) -> None:
        self.index, self.count = index, 2
        self._store, self._arrived = store, arrived
        self._broadcasts = 0

    def set(self, key, value):
        with self._arrived:
            self._store[key] = value
            self._arrived.notify_all()

    def wait(self, key, seconds):
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._store, seconds)
            return self._store.get(key)

    def broadcast(self, value):
        self._broadcasts += 1
        key = f"broadcast/{self._broadcasts}"
        if self.index == 0:
            self.set(key, pickle.dumps(value))
        # As a collective operation does: it breaks when another process has failed.
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._store or "failed" in self._store, self.timeout)
            if key not in self._store:
                raise RuntimeError("the connection is closed")
            return pickle.loads(self._store[key])

    def shutdown(self, *, stopped):
        del stopped
        self.set(f"left/{self.index}", b"")


class Counting(DistributedEngine):
    """An engine that notes what it is asked; its state is the list of learning rates so far."""

    name = "counting"

    def __init__(self, meeting):
        self.asked = []
        self.divisors = []
        self.meeting = meeting
        """Steps end for all or for no one, as sums over processes do."""

    def init(self, seed, *, trainable=True):
        assert trainable
        self.asked.append(("init", seed))
        return []

    def step(self, state, batch, learning_rate):
        self.meeting.wait()
        self.asked.append(("step", batch.tokens.tolist(), len(state)))
        self.divisors.append(batch.divisor)
        return [*state, learning_rate], StepResult(loss=1.0, grad_norm=1.0, share_of_weights_changed=1.0)

    def without_adapters(self, state):
        return ["below", *state]

    def evaluate(self, state, batch):
        self.asked.append(("evaluate", len(state)))
        return LossSum(loss_sum=1.0, supervised_tokens=1)


@pytest.fixture
def pair(monkeypatch):
    """Two process groups of a coordinator and a worker, their store, and a maker of their engines."""
    monkeypatch.setattr(process_group, "SHUTDOWN_TIMEOUT", 0.2)
    monkeypatch.setattr(calls, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(calls, "REASON_TIMEOUT", 0.2)
    store, arrived = {}, threading.Condition()
    meeting = threading.Barrier(2)
    first, second = (ProcessGroup(ThreadProcesses(index, store, arrived)) for index in range(2))
    return first, second, store, lambda: Counting(meeting)


def in_thread(group, engine, stop=lambda: False, facts=None):
    found = {}

    def run():
        try:
            with group:
                if facts is not None:
                    group.agree(facts, {"index": 1})
                found["end"] = group.work(engine, None, stop)
        except (WorkingsError, MemoryError) as error:
            found["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found
