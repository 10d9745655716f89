"""Cards that are not here: what the parsers and the rules make of texts like those that a driver prints."""

from pathlib import Path

import pytest

from tests.doctor.making import card
from workings.doctor.nvidia import (
    Card,
    Driver,
    check_cards,
    choose,
    compiled_for,
    parse_cards,
    parse_cuda,
    read_driver,
    runs_on,
    torch_wheel,
)

RECORDED = Path(__file__).parent / "recorded"
GPU = {"gpu": "/dev/nvidia0"}


def cards(name):
    return parse_cards((RECORDED / name).read_text())


def wheel(*architectures, cuda="12.6"):
    return {"version": "2.9.0", "cuda": cuda, "architectures": list(architectures)}


def judged(driver, found, present=GPU):
    return {finding.id: finding for finding in check_cards(driver, present, found)}


def test_rows_of_the_driver_are_read():
    one, two = cards("t4x2.csv")
    assert one == two == Card(name="Tesla T4", capability="7.5", driver="560.35.03", memory_bytes=15360 * 2**20,
                              free_bytes=15095 * 2**20)
    assert parse_cuda((RECORDED / "head.txt").read_text()) == "12.8"
    assert parse_cuda("No devices were found") == ""


@pytest.mark.parametrize(("code", "capability", "ptx", "runs"), [
    (["8.0"], "8.0", [], True), (["8.0"], "8.9", [], True), (["8.6"], "8.0", [], False),
    (["9.0"], "12.0", [], False), (["10.0"], "12.0", [], False), (["9.0"], "12.0", ["9.0"], True),
    (["7.5"], "7.0", ["7.5"], False), ([], "9.0", [], False),
])
def test_code_runs_on_its_major_version_and_intermediate_code_on_newer_cards(code, capability, ptx, runs):
    assert runs_on(code, capability, ptx) is runs


def test_architectures_as_a_wheel_names_them():
    assert compiled_for(["sm_75", "sm_90a", "sm_120", "compute_120"]) == (["7.5", "9.0", "12.0"], ["12.0"])


T4 = Driver(cards=cards("t4x2.csv"), cuda="12.6")
RTX = Driver(cards=cards("rtx5090.csv"), cuda="12.8")
HALF = Driver(cards=(Card(name="Tesla T4", capability="7.5", driver="560.35.03", memory_bytes=2**34,
                          free_bytes=2**33),), cuda="12.6")
SETUP = "workings doctor --setup cuda"


@pytest.mark.parametrize(("driver", "built", "subject", "judgement", "what", "mend"), [
    (RTX, wheel("sm_50", "sm_80", "sm_90"), "wheel.torch", "problem", "is sm_120", SETUP),
    (RTX, wheel("sm_90", "sm_120", cuda="12.8"), "wheel.torch", "fine", "built for CUDA 12.8", ""),
    (T4, wheel("sm_75", cuda="13.0"), "wheel.torch", "problem", "supports CUDA 12.6", SETUP),
    (T4, wheel("sm_75", cuda="12.8"), "wheel.torch", "fine", "", ""),  # the same major version
    (T4, wheel(cuda=""), "wheel.torch", "note", "the CPU only", SETUP),
    (HALF, {}, "card.memory", "note", "8.00 GiB of Tesla T4 are in use", "nvidia-smi")])
def test_cards_drivers_and_wheels_are_held_against_each_other(driver, built, subject, judgement, what, mend):
    found = judged(driver, built)[subject]
    assert (found.judgement, found.mend) == (judgement, mend)
    assert what in found.what


def test_a_card_without_a_driver_is_a_problem_and_no_card_is_none():
    driver = Driver(failure="there is no nvidia-smi on this machine")
    assert judged(driver, {})["driver"].judgement == "problem"
    assert judged(driver, {}, {}) == {}


def test_a_driver_that_fails_or_answers_nonsense_is_no_card(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    for text, said in (("echo 'NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
                       ("echo nonsense", "not a row"),
                       ("echo 'Tesla T4, [N/A], 560, 15360, 15095'", "not a compute capability")):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        found = read_driver()
        assert found.cards == ()
        assert said in found.failure


@pytest.mark.slow
def test_the_installed_wheel_says_what_it_was_built_for():
    pytest.importorskip("torch")
    import torch
    found = torch_wheel("--kernel", "bf16")
    assert (found["version"], found["cuda"]) == (torch.__version__, torch.version.cuda or "")
    if not torch.cuda.is_available():
        assert "sees no card" in found["failure"]


@pytest.mark.parametrize(("cards", "expected"), [
    ([("12.0", "580.65.06")], "cu130"),  # RTX 5090
    ([("12.0", "570.133.07")], "cu128"),
    ([("9.0", "535.104.05")], "cu128"),  # machine code needs no newer driver of the same major version
    ([("7.5", "560.35.03")], "cu128"),  # T4
    ([("6.0", "560.35.03")], "cu126"),  # P100
    ([("12.0", "520.61.05")], ""),
    ([("12.0", "580.65.06"), ("6.0", "580.65.06")], ""),
    ([("12.0", "580.65.06"), ("7.0", "580.65.06")], "cu128"),
])
def test_the_newest_build_for_every_card_and_its_driver(cards, expected):
    build, reasons = choose([card(*each) for each in cards])
    assert (build.tag if build else "") == expected
    assert bool(reasons) == (expected != "cu130"), "why a newer one is not taken"
