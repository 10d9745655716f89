"""What a kept run of JAX says of its devices, its model and its plan, told otherwise in one place and sealed again."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence import walk
from tests.evidence.packs import EXAMPLE
from workings.record import canonical

Files = dict[str, bytes]
RUN = "with-steps/"


@pytest.fixture(scope="module")
def kept() -> Files:
    """A run of the repository without its evaluation, as files in memory."""
    prefix = f"runs/{RUN}"
    return {RUN + name.removeprefix(prefix): data for name, data in walk.files_of(EXAMPLE).items()
            if name.startswith(prefix) and "/eval/" not in name}


def told(name: str, change: Callable[[Any], Any]) -> Callable[[Files], Files]:
    """A file of JSON in which ``change`` told something else."""
    def fake(files: Files) -> Files:
        value = json.loads(files[RUN + name])
        change(value)
        return files | {RUN + name: canonical.line(value)}
    return fake


def part(name: str, size: int) -> Callable[[Files], Files]:
    """The plan, of a version that named its parts, with one that takes so many bytes."""
    def change(plan: Any) -> None:
        plan["parts"] = [{"name": name, "size_bytes": size, "certainty": "exact"},
                         {"name": "everything else", "size_bytes": plan["peak_bytes"] - size,
                          "certainty": "unexplained"}]
    return told(PLAN, change)


CHECKS, MANIFEST, PLAN = "env/device_checks.json", "run_manifest.json", "plan/plan.json"
SHAPE = "config/model_shape.json"
FAKES = {
    "another mesh was checked": (told(CHECKS, lambda value: value.update(mesh={"fsdp": 2, "tp": 1})),
                                 "consistency.machine"),
    "more devices than XLA was told to show": (
        told("env/env_info.json", lambda value: value["variables"].update(
            XLA_FLAGS="--xla_force_host_platform_device_count=0")), "consistency.machine"),
    "one device checked twice": (told(CHECKS, lambda value: value.update(devices=["cpu:0", "cpu:0"], count=2)),
                                 "consistency.device"),
    "more processes than devices": (told(CHECKS, lambda value: value.update(processes=4)), "consistency.device"),
    "another model": (told(MANIFEST, lambda value: value.update(model_id="google/gemma-2b")), "consistency.tensors"),
    "a revision of random weights": (told(MANIFEST, lambda value: value.update(model_revision="main")),
                                     "consistency.tensors"),
    "no shape of the model": (told(SHAPE, lambda value: [value.clear(), value.update(note="a large one")]),
                              "consistency.tensors"),
    "a key more in the shape": (told(SHAPE, lambda value: value.update(width=4096, reviewed=True)),
                                "consistency.tensors"),
    "a device of another process": (told(CHECKS, lambda value: value.update(
        devices=["cpu:0 of process 1"], processes=1)), "consistency.device"),
    "two processes on devices of one": (told(CHECKS, lambda value: value.update(
        devices=["cpu:0 of process 0"], processes=2)), "consistency.device"),
    "a kernel that was wrong": (told(CHECKS, lambda value: value.update(max_difference_to_numpy=5.0)),
                                "consistency.device"),
    "more processors than there are": (told("env/env_info.json", lambda value: value["machine"].update(
        usable_cores=value["machine"]["logical_cores"] + 1)), "consistency.machine"),
    "other variables of threads": (told("env/env_info.json", lambda value: [
        value["machine"].update(threads={"OMP_NUM_THREADS": "8"}), value["variables"].update(OMP_NUM_THREADS="1")]),
        "consistency.machine"),
    "an engine from elsewhere": (told(MANIFEST, lambda value: value.update(
        engine_distribution={"name": "other", "version": "1.0"})), "consistency.engine"),
}


@pytest.mark.parametrize("name", FAKES)
def test_each_is_found(kept: Files, name: str) -> None:
    fake, check = FAKES[name]
    found = walk.verified(walk.resealed(fake(kept)), level=1)
    assert check in {one.id for one in found.checks if one.verdict == "failed"}


def test_the_kept_run_is_a_good_one(kept: Files) -> None:
    assert [one.text for one in walk.verified(walk.resealed(kept), level=1).checks if one.verdict == "failed"] == []


@pytest.mark.parametrize("name", ["parameters", "moments"])
def test_what_the_compiler_counted_follows_from_the_recipe(kept: Files, name: str) -> None:
    weights = 4 * json.loads(kept[RUN + MANIFEST])["parameters"]
    sizes = {"parameters": weights, "moments": 2 * weights}  # AdamW has two moments of each weight
    for size, is_told in ((sizes[name], False), (sizes[name] // 2, True)):
        found = walk.verified(walk.resealed(part(name, size)(kept)), level=1)
        text = next(one.text for one in found.checks if one.id == "consistency.machine")
        assert (f"{name} take {size:,} bytes, by the recipe {sizes[name]:,}" in text) is is_told
