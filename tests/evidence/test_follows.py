"""Parts of plans, findings, loads and settings that the rest of a real record contradicts.

The record is read from memory, and only the functions at hand look at it.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence import walk
from tests.evidence.trained import score_here, trained_files
from workings.evidence.verify.checks.announced_evaluation import same_version
from workings.evidence.verify.checks.evaluation_lines import backend_agrees, stated_problems
from workings.evidence.verify.checks.machine import measured_problems, plan_problems
from workings.evidence.verify.load import load
from workings.evidence.verify.record import Unit
from workings.hardware.memory import PROCESS_PEAK
from workings.record.canonical import line

RUN = "a/"
PLAN, METRICS = "plan/plan.json", "train/metrics.jsonl"
MANIFEST, ASKED = "run_manifest.json", "eval/items/eval_config.json"
MEASURED = "plan/measured.json"
Files = dict[str, bytes]
COMPILED = {
    "breakdown": {"aliased": 238852, "arguments": 314636, "code": 0, "compiler_peak": 325256, "outputs": 249416,
                  "sum": 13725204, "temporaries": 13400004},
    "peak_bytes": 13725204, "limit_bytes": 25276432384, "program": "step", "source": "compiled",
    "parts": [{"certainty": certainty, "name": name, "size_bytes": size} for certainty, name, size in (
        ("by proportion", "activations of the layer at hand", 5863617),
        ("by proportion", "activations kept for backward", 5187045), ("by proportion", "attention scores", 2255237),
        ("assigned", "moments", 159232), ("assigned", "gradients", 79616), ("assigned", "parameters", 79616),
        ("assigned", "batch", 71680), ("by proportion", "head gradient in fp32", 29159))]}
"""Contents of a plan that adds up."""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Files:
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        files = trained_files(tmp_path_factory.mktemp("trained"))
    # The plan of an engine of this project, as its compiler has it.
    manifest = json.loads(files[RUN + MANIFEST])
    manifest["engine_distribution"]["name"] = "workings"
    measured = json.loads(files[RUN + MEASURED]) | {
        "peak_before_bytes": 500_000, "resident_before_bytes": 500_000, "measured_peak_bytes": 600_000,
        "growth_bytes": 100_000, "measured_source": PROCESS_PEAK}
    rows = [json.loads(text) | {"memory_bytes": 600_000, "memory_source": PROCESS_PEAK}
            for text in files[RUN + METRICS].splitlines()]
    return files | {RUN + MANIFEST: line(manifest), RUN + PLAN: line(COMPILED), RUN + MEASURED: line(measured),
                    RUN + METRICS: b"".join(map(line, rows))}


def unit_of(files: Files, kind: str = "run") -> Unit:
    """The run in the files, or the evaluation in it."""
    return next(unit for unit in load(walk.MemoryTree(files)).units if unit.kind == kind)


def put(name: str, place: str, value: Any) -> Callable[[Files], None]:
    """Another value at a dotted place of a JSON file."""
    def fake(files: Files) -> None:
        root = here = json.loads(files[RUN + name])
        *way, last = place.split(".")
        for key in way:
            here = here[int(key) if isinstance(here, list) else key]
        here[int(last) if isinstance(here, list) else last] = value
        files[RUN + name] = line(root)
    return fake


PLANS = {
    "a larger part": put(PLAN, "parts.0.size_bytes", 10**12), "another sum": put(PLAN, "breakdown.sum", 1),
    "other arguments": put(PLAN, "breakdown.arguments", 1), "another peak of the compiler":
        put(PLAN, "breakdown.compiler_peak", 10**12),
    "exact moments that are none": put(PLAN, "parts.3.certainty", "exact"),
    "a part without a size": put(PLAN, "parts.0.size_bytes", "much"),
}
SETTINGS = {
    "a shorter limit": put(ASKED, "limits.max_completion_chars", 3),
    "another backend": put(ASKED, "engine.versions", {"backend": "cuda"}),
    "another template": put(ASKED, "template.name", "plain"),
    "no decoding": put(ASKED, "decoding", {"absent": "not recorded"}),
    "generated from a file": put(ASKED, "source", {"kind": "generated", "file": "predictions.jsonl"}),
}


def problems_of(kind: str, files: Files) -> list[str]:
    """What the functions of one kind find in the files."""
    if kind == "settings":
        unit = unit_of(files, "eval")
        return list(stated_problems(unit, unit.json_object("eval_config.json")))
    unit = unit_of(files)
    return list(plan_problems(unit, unit.json_object(PLAN)))


FAKES = {"plans": PLANS, "settings": SETTINGS}


@pytest.mark.parametrize("kind", FAKES)
def test_the_example_says_nothing_that_its_record_contradicts(record: Files, kind: str) -> None:
    assert problems_of(kind, dict(record)) == []


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, told in FAKES.items() for name in told])
def test_what_the_record_contradicts_is_found(record: Files, kind: str, name: str) -> None:
    files = dict(record)
    FAKES[kind][name](files)
    assert problems_of(kind, files)


def test_a_process_holds_no_less_than_before_its_first_step(record: Files) -> None:
    def problems(files: Files) -> list[str]:
        unit = unit_of(files)
        return list(measured_problems(unit, unit.json_object(MEASURED)))

    assert problems(dict(record)) == []
    files = dict(record)
    rows = [json.loads(text) for text in files[RUN + METRICS].splitlines()]
    files[RUN + METRICS] = b"".join(line(row | {"memory_bytes": row["memory_bytes"] // 4}) for row in rows)
    assert any("the process held" in problem for problem in problems(files))


@pytest.mark.parametrize(("backend", "platform", "agrees"), [
    ("cpu", "cpu", True), ("cuda 12090", "gpu", True), ("cuda", "cpu", False), ("CPU", "gpu", False),
    ("something new", "gpu", True), ("tpu v5e", "tpu", True), ("cpu", "tpu", False)])
def test_words_for_devices(backend: str, platform: str, *, agrees: bool) -> None:
    assert backend_agrees(backend, platform) is agrees


@pytest.mark.parametrize(("one", "other", "same"), [
    ("2.11.0", "2.11.0+cu130", True), ("2.11.0+cu130", "2.11.0", True), ("2.11.0+cpu", "2.11.0+cu130", False),
    ("2.11.0", "2.12.0+cu130", False), ("2.11.0", "2.11.0", True), ("2.11.0", 2.11, False)])
def test_a_package_that_names_its_build_has_the_version_without_it(one: str, other: Any, *, same: bool) -> None:
    """PyTorch for CUDA may be installed as 2.11.0 and call itself 2.11.0+cu130."""
    assert same_version(one, other) is same


def test_a_recipe_that_only_this_record_made_unreadable(record: Files) -> None:
    fake = record["a/config/recipe.yaml"] + b"favourite: blue\n"
    found = walk.verified(walk.resealed(record | {"a/config/recipe.yaml": fake}), level=1)
    assert {str(one.verdict) for one in found.checks if one.id == "consistency.recipe"} == {"failed"}


def test_random_weights_that_are_said_to_come_from_a_file(record: Files) -> None:
    manifest = json.loads(record[RUN + MANIFEST]) | {"weight_digests": {"model.safetensors": "ab" * 32}}
    found = walk.verified(walk.resealed(record | {RUN + MANIFEST: line(manifest)}), level=1)
    assert {str(one.verdict) for one in found.checks if one.id == "consistency.tensors"} == {"failed"}
