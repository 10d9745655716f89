"""Planned, measured by the device, and the resident memory of the process: each has one number and one word."""

import pytest

from workings.errors import RecordError
from workings.hardware.memory import PROCESS_PEAK
from workings.record.memory_use import memory_sentence, memory_use

MIB = 2**20
PLAN = {"peak_bytes": 40 * MIB, "source": "compiled", "limit_bytes": 2**34}
SMALL = PLAN | {"peak_bytes": 3 * MIB}
BEFORE = {"resident_before_bytes": 500 * MIB, "peak_before_bytes": 510 * MIB}
SUFFICED = {"out_of_memory": {"absent": "memory sufficed"}}


def test_a_device_counts_what_its_programs_hold():
    facts = SUFFICED | {"measured_peak_bytes": 38 * MIB, "measured_source": "device (memory_stats)"}
    assert memory_sentence(PLAN, facts) == ("planned 40.0 MiB a device (compiled), measured by the device 38.0 MiB, "
                                      "limit 16.00 GiB")
    assert memory_use(PLAN, facts).gauge() == "38.0 MiB of 40.0 MiB planned"


def test_on_a_cpu_the_run_took_what_its_process_grew_by():
    facts = BEFORE | SUFFICED | {"measured_peak_bytes": 562 * MIB, "measured_source": PROCESS_PEAK,
                                 "growth_bytes": 62 * MIB}
    assert memory_sentence(PLAN, facts) == (
        "planned 40.0 MiB a device (compiled), taken by the run 62.0 MiB (resident memory of the process 562.0 MiB, "
        "500.0 MiB of it before the first weight), limit 16.00 GiB")
    assert "62.0 MiB were held when memory ran out" in memory_sentence(PLAN, facts | {"out_of_memory": "at step 3"})


def test_a_peak_that_did_not_rise_bounds_what_the_run_took():
    facts = BEFORE | SUFFICED | {"measured_peak_bytes": 510 * MIB, "measured_source": PROCESS_PEAK,
                                 "growth_bytes": {"absent": "the compiler held more"}}
    assert "taken by the run at most 510.0 MiB" in memory_sentence(PLAN, facts)
    assert memory_use(PLAN, facts).gauge() == ""


def test_beside_a_plan_of_a_few_mib_the_growth_of_a_process_is_not_shown():
    grown = SUFFICED | {"measured_peak_bytes": 562 * MIB, "growth_bytes": 12 * MIB}
    assert memory_use(SMALL, BEFORE | grown | {"measured_source": PROCESS_PEAK}).gauge() == ""
    of_process = BEFORE | grown | {"measured_source": PROCESS_PEAK}
    assert memory_use(PLAN, of_process).gauge() == "12.0 MiB of 40.0 MiB planned"
    assert memory_use(SMALL, grown | {"measured_source": "device"}).gauge() == "562.0 MiB of 3.0 MiB planned"


def test_while_a_run_goes_on_the_last_line_says_what_it_holds():
    for peak, expected in ((505, None), (510, None), (562, 62 * MIB)):
        line = {"memory_bytes": peak * MIB, "memory_source": PROCESS_PEAK}
        assert memory_use(PLAN, BEFORE, line).taken_bytes == expected
    assert memory_use(PLAN, {}, {"memory_bytes": 5, "memory_source": "device"}).taken_bytes == 5
    assert memory_use(PLAN, BEFORE).taken_text() == "not known"


@pytest.mark.parametrize("changes", [
    {"limit_bytes": "all"}, {"peak_bytes": None}, {"measured_peak_bytes": 1.5},
    {"resident_before_bytes": True}])
def test_what_is_no_size_is_a_damaged_record(changes):
    with pytest.raises(RecordError, match="no number of bytes"):
        memory_use(PLAN | changes, BEFORE | changes)
