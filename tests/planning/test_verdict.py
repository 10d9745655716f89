"""Bytes against a limit."""

import pytest

from workings.engines.base import Inspection
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import HostMemory
from workings.planning import verdict
from workings.planning.verdict import Verdict, memory_verdict


def judged(platform: str, peak: int, limit: int) -> Verdict:
    return memory_verdict(
        Inspection(peak_bytes=peak, source="compiled", breakdown={"arguments": 30, "temporaries": 70}, versions={}),
        DeviceFacts(platform=platform, kind="a device", count=8, memory_limit_bytes=limit,
                    memory_limit_source="compiler", mesh={"fsdp": 8, "tp": 1}, versions={}, reason="asked for"))


@pytest.mark.parametrize(("peak", "fits", "marginal", "said"), [
    (900, True, False, "fits:"), (901, True, True, "fits, but marginally:"),
    (1000, True, True, "fits, but marginally:"), (1001, False, False, "does not fit:"),
])
def test_fits_marginal_and_not(peak, fits, marginal, said):
    found = judged("tpu", peak, 1000)
    assert (found.fits, found.marginal) == (fits, marginal)
    assert found.reasons[0].startswith(said)
    assert "a device (compiled; limit from compiler)" in found.reasons[0]
    assert found.to_json()["devices"] == 8


@pytest.mark.parametrize(("peak", "free", "fits", "marginal", "said"), [
    (850, 1000, True, False, "fits: "), (851, 1000, True, True, "fits, but marginally: "),
    (1001, 1000, False, False, "does not fit: "), (500, 2000, True, False, "fits: "),
    (426, 500, True, True, "that are free now"), (501, 500, False, False, "does not fit now: "),
])
def test_on_a_cpu_what_is_free_now_counts_too(peak, free, fits, marginal, said, monkeypatch):
    monkeypatch.setattr(verdict, "host_memory", lambda: HostMemory(
        limit_bytes=1000, limit_source="machine", available_bytes=free, available_source="what is free"))
    found = judged("cpu", peak, 1000)
    assert (found.fits, found.marginal, found.available_bytes) == (fits, marginal, free)
    assert said in found.reasons[0]
    assert any(reason.startswith("marginal: less than 15 % is left") for reason in found.reasons) is marginal
    assert found.to_json()["available_bytes"] == free
