"""The command for the day that an accelerator is there: it resumes, it keeps what went wrong, and every line runs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from proof.chip import __main__ as command
from proof.chip import parity, places, sampling, speed
from proof.chip.evidence import Evidence, write_table
from proof.chip.model import Configuration
from proof.chip.part import Chip, Part

TINY = Chip(platform="cpu", kind="a processor", tiny=True)


def part_of(*names):
    return Part(name="part", shows="Something.", needs=(), rows=lambda chip: names, told=("value",),
                run=lambda row, chip, folder: {"value": 1.0})


def test_a_part_goes_on_where_it_ended_and_keeps_what_went_wrong(tmp_path):
    part = part_of("a", "b", "c")
    evidence = Evidence(tmp_path, part, TINY)
    evidence.add("a", {"status": "failed", "error": "first line\nthe card | said no\n"})
    evidence.add("b", {"status": "done", "value": 0.123456, "seconds": 3.0, "holds": True})
    # What failed is tried again, after what was never tried.
    assert Evidence(tmp_path, part, TINY).left() == ["c", "a"]
    again = Evidence(tmp_path, part, TINY)
    again.add("a", {"status": "done", "value": 2})
    again.add("c", {"status": "absent", "error": "trl not installed"})
    assert Evidence(tmp_path, part, TINY).left() == []
    text = write_table(tmp_path, [part, part_of()])
    assert "| part | b | done | holds True; value 0.1235 | 3.0 |" in text
    assert "| part | c | absent | trl not installed |" in text
    assert "the card | said no" in text.partition("## What went wrong")[2]
    assert "a trial, no evidence" in text
    row = json.loads((tmp_path / "part.json").read_text())["rows"]["b"]
    assert row["code"]["sources"]
    assert row["date"]


def test_evidence_names_no_folder_of_the_machine(tmp_path):
    evidence = Evidence(tmp_path, part_of("a"), TINY)
    evidence.add("a", {"status": "failed", "error": f'File "{places.ROOT}/proof/x.py"\nFile "{sys.prefix}/lib/y.py"\n'
                                                    f"{Path.home()}/z does not verify"})
    assert evidence.failures[0]["error"] == evidence.rows["a"]["error"] == (
        'File "proof/x.py"\nFile "lib/y.py"\n~/z does not verify')


def test_differences_are_the_largest_and_are_judged():
    cpu = {"logits": np.zeros(3), "losses": np.ones(2), "curve": np.array([2.0, 1.0]),
           "gradient.w": np.array([1.0, -4.0])}
    same = parity.differences(cpu, cpu)
    assert same["holds"]
    assert (same["first_loss"], same["last_loss"]) == (2.0, 1.0)
    off = parity.differences(cpu, cpu | {"gradient.w": np.array([1.0, -4.4])})
    assert not off["holds"]
    assert off["gradient"] == pytest.approx(0.4 / 4.4)


def test_utilization_is_counted_from_the_shape_and_the_peak_rate():
    asked, chip = Configuration(shape="gemma-2b", batch=(1, 4, 2048)), Chip(platform="gpu", kind="NVIDIA H200")
    found = speed.judged({"steps": 10, "seconds": 5.0, "tokens_per_second": 1.0}, asked, chip)
    assert found["positions_per_second"] == 4 * 2048 * 10 / 5
    # Six operations a weight and position: 2.5 billion weights, embedding included (it is the head), and attention.
    assert found["operations_per_second"] == pytest.approx(6 * 2.506e9 * 4 * 2048 * 2, rel=0.08)
    assert found["share_of_peak"] == pytest.approx(found["operations_per_second"] / 989e12)
    assert "share_of_peak" not in speed.judged({"steps": 1, "seconds": 1.0}, asked, Chip(platform="cpu", kind="?"))


ROWS = [(part.name, row) for part in command.PARTS.values() for row in part.rows(TINY)]


@pytest.mark.full
@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}: {row}" for name, row in ROWS])
def test_every_tiny_row_on_the_cpu(name, row, tmp_path, run_python):
    run_python("-m", "proof.chip", name, "--device", "cpu", "--tiny", "--rows", row, "--out", tmp_path, check=False)
    values = json.loads((tmp_path / f"{name}.json").read_text())
    found = values["rows"][row]
    assert values["failures"] == []
    assert found.get("holds", True)
    # A peer may be missing here, and JAX has flash attention on TPUs alone.
    no_target = sampling.MEMORY in row  # a CPU has no plan of its memory
    assert found["status"] == ("absent" if no_target or ("trl" in row and found["status"] != "done") else
                               "refused" if row == "jax flash" else "done"), found


def test_rows_run_beside_each_other_but_those_that_need_the_chip_alone(tmp_path, monkeypatch, capsys):
    ran = []

    def measured(part, name, chip, seconds, environment=None):
        ran.append((name, environment))
        return {"status": "stopped" if name == "slow" else "done", "seconds": 0.0, "holds": True}

    monkeypatch.setattr(command, "measured", measured)
    part = Part(name="part", shows="Something.", needs=(), rows=lambda chip: ("a", "alone", "b", "slow"), told=(),
                run=lambda row, chip, folder: {}, alone=lambda row: row == "alone")
    command.measure_beside([part], TINY, tmp_path, 60.0, "", 2)
    assert sorted(name for name, _ in ran) == ["a", "b", "slow"]
    assert all(environment is command.SHARED for _, environment in ran)
    # What time ended is kept nowhere and comes again.
    assert Evidence(tmp_path, part, TINY).left() == ["alone", "slow"]
    command.measure_part(part, TINY, tmp_path, 60.0, alone=True)
    # What has the chip alone takes its memory as a run does.
    assert ran[3:] == [("alone", None)]
    assert "part: a: done, 0.0 s, holds: True" in capsys.readouterr().out
