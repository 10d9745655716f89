"""Cards that are not here: what the parsers and the rules make of texts like those that a driver prints."""

import sys
from pathlib import Path

import pytest

from tests.doctor.making import card
from workings.doctor.nvidia import (
    Build,
    Card,
    Driver,
    builds,
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


@pytest.mark.parametrize("text", ["No devices were found", "a, b, c", "Tesla T4, [N/A], 560, 15360, 15095"])
def test_what_is_no_row_is_not_read_as_one(text):
    with pytest.raises(ValueError, match="not a"):
        parse_cards(text)


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
OLD = Driver(cards=(card("12.0", "560.35.03", "NVIDIA GeForce RTX 5090"),), cuda="12.6")
HALF = Driver(cards=(Card(name="Tesla T4", capability="7.5", driver="560.35.03", memory_bytes=2**34,
                          free_bytes=2**33),), cuda="12.6")
SETUP = "workings doctor --setup cuda"


@pytest.mark.parametrize(("driver", "built", "subject", "judgement", "what", "mend"), [
    (RTX, wheel("sm_50", "sm_80", "sm_90"), "wheel.torch", "problem", "is sm_120", SETUP),
    (RTX, wheel("sm_90", "sm_120", cuda="12.8"), "wheel.torch", "fine", "built for CUDA 12.8", ""),
    (T4, wheel("sm_75", cuda="13.0"), "wheel.torch", "problem", "supports CUDA 12.6", SETUP),
    (T4, wheel("sm_75", cuda="12.8"), "wheel.torch", "fine", "", ""),  # the same major version
    (T4, wheel(cuda=""), "wheel.torch", "note", "the CPU only", SETUP),
    (OLD, {}, "driver", "problem", "this card needs CUDA 12.8", "update NVIDIA's driver"),
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
                       ("echo nonsense", "not a row")):
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
    found = torch_wheel(sys.executable, "--kernel", "bf16")
    assert (found["version"], found["cuda"]) == (torch.__version__, torch.version.cuda or "")
    if not torch.cuda.is_available():
        assert "sees no card" in found["failure"]


def tag(choice):
    """Of the build to install."""
    return choice[0].tag if choice[0] else ""


@pytest.mark.parametrize(("capability", "driver", "cuda", "expected"), [
    ("12.0", "580.65.06", "13.0", "cu130"),  # RTX 5090
    ("12.0", "570.133.07", "12.8", "cu128"),
    ("9.0", "570.133.07", "12.8", "cu128"),  # H100
    ("9.0", "535.104.05", "12.2", "cu128"),  # machine code needs no newer driver of the same major version
    ("7.5", "560.35.03", "12.6", "cu128"),  # T4
    ("8.9", "580.65.06", "13.0", "cu130"),  # RTX 4090
    ("6.0", "560.35.03", "12.6", "cu126"),  # P100
    ("12.0", "520.61.05", "11.8", ""),
    ("3.7", "560.35.03", "12.6", ""),  # K80
])
def test_the_newest_build_for_card_and_driver(capability, driver, cuda, expected):
    found = choose([card(capability, driver)], cuda)
    assert tag(found) == expected
    if expected != "cu130":
        assert found[1], "why a newer one is not taken"


def test_a_build_must_suit_every_card():
    assert tag(choose([card("12.0", "580.65.06"), card("6.0", "580.65.06")], "13.0")) == ""
    assert tag(choose([card("12.0", "580.65.06"), card("7.0", "580.65.06")], "13.0")) == "cu128"


def test_intermediate_code_needs_a_driver_that_can_compile_it():
    only = Build(tag="cu999", cuda="12.9", torch="9", architectures=("9.0",), ptx=("9.0",), lowest_driver=525, index="")
    assert tag(choose([card("12.0")], "12.9", [only])) == "cu999"
    refused = choose([card("12.0")], "12.8", [only])
    assert tag(refused) == ""
    assert "cannot compile" in refused[1][0]


def test_the_table_of_builds_is_stable_cuda_only_newest_first():
    found = builds()
    assert [float(build.cuda) for build in found] == sorted((float(build.cuda) for build in found), reverse=True)
    for build in found:
        assert build.tag == f"cu{build.cuda.replace('.', '')}"
        assert build.index.endswith(build.tag)
        assert all(part.isdigit() for part in build.torch.split(".")), "no release candidates, no nightlies"
        assert build.architectures
