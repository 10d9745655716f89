"""Bytes against a limit."""

import pytest

from workings.engines.base import Inspection
from workings.hardware.device import DeviceFacts
from workings.planning.verdict import memory_verdict


def verdict(peak, limit):
    return memory_verdict(
        Inspection(peak_bytes=peak, source="compiled", breakdown={"arguments": 30, "temporaries": 70},
                   versions={"xla": "1"}),
        DeviceFacts(platform="tpu", kind="TPU v5 lite", count=8, memory_limit_bytes=limit,
                    memory_limit_source="compiler", mesh={"fsdp": 8, "tp": 1}, versions={}, reason="asked for"))


@pytest.mark.parametrize(("peak", "fits", "marginal"), [
    (900, True, False), (901, True, True), (1000, True, True), (1001, False, False),
])
def test_fits_marginal_and_not(peak, fits, marginal):
    found = verdict(peak, 1000)
    assert (found.fits, found.marginal) == (fits, marginal)
    said = {(True, False): "fits:", (True, True): "fits, but marginally:", (False, False): "does not fit:"}
    assert found.reasons[0].startswith(said[fits, marginal])


def test_the_reason_names_both_numbers_and_the_largest_part():
    found = verdict(int(28.09 * 2**30), int(15.75 * 2**30))
    assert "28.09 GiB of 15.75 GiB a device (compiled; limit from compiler)" in found.reasons[0]
    assert "temporaries" in found.reasons[1]
    assert found.to_json()["devices"] == 8


def on_cpu(peak, limit, free):
    from workings.hardware.memory import HostMemory
    return memory_verdict(
        Inspection(peak_bytes=peak, source="compiled", breakdown={"sum": 100, "temporaries": 70}, versions={}),
        DeviceFacts(platform="cpu", kind="a core", count=1, memory_limit_bytes=limit, memory_limit_source="machine",
                    mesh={"fsdp": 1, "tp": 1}, versions={}, reason="asked for"),
        HostMemory(limit_bytes=limit, limit_source="machine", available_bytes=free, available_source="what is free"))


@pytest.mark.parametrize(("peak", "free", "fits", "marginal", "said"), [
    (850, 1000, True, False, "fits: "), (851, 1000, True, True, "fits, but marginally: "),
    (1001, 1000, False, False, "does not fit: "), (500, 2000, True, False, "fits: "),
    (426, 500, True, True, "that are free now"), (501, 500, False, False, "does not fit now: "),
])
def test_on_a_cpu_what_is_free_now_counts_too(peak, free, fits, marginal, said):
    found = on_cpu(peak, 1000, free)
    assert (found.fits, found.marginal, found.available_bytes) == (fits, marginal, free)
    assert said in found.reasons[0]
    assert any(reason.startswith("marginal: less than 15 % is left") for reason in found.reasons) is marginal
    assert found.to_json()["available_bytes"] == free
    assert "temporaries" in found.reasons[-1], "a total is no part"
