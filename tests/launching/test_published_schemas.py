"""What `launch` writes under excerpts of the published definitions of what reads it.

An excerpt keeps every key at each level that a file of ours reaches, with what is demanded of its value.
"""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.launching.making import EVERY

PUBLISHED = {path.stem: json.loads(path.read_text("utf-8"))
             for path in (Path(__file__).parent / "published").glob("*.json")}
OBJECTS = {name: yaml.safe_load(text) for name, files in EVERY.items() for text in files.values()
           if not text.startswith("#!")}


def wrong(made):
    schema = PUBLISHED[made.get("kind", "Task").lower()]
    return [error.message for error in Draft202012Validator(schema).iter_errors(made)]


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_is_one_of_the_published_definition(name):
    assert wrong(OBJECTS[name]) == []


def put(made, path, value):
    """The object with a value in another place; keys of lists are positions."""
    here = changed = deepcopy(made)
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return changed


POD = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")


@pytest.mark.parametrize(("name", "path", "value"), [
    ("trainjob, torch", ("spec", "trainer", "numNode"), 2),
    ("trainjob, torch", ("spec", "trainer", "numNodes"), "two"),
    ("trainjob, jax", ("spec", "runtimeRefs"), {}),
    ("jobset", ("spec", "failurePolicy", "maxRestarts"), "ten"),
    ("jobset", (*POD, "nodeSelectors"), {}),
    ("jobset", (*POD, "containers", 0, "resources", "limit"), {}),
    ("jobset", (*POD, "containers", 0, "ports", 0, "containerPort"), "29500"),
    ("skypilot, jax", ("num_nodes",), "two"),
    ("skypilot, jax", ("resource",), {}),
    ("skypilot, tpu", ("resources", "accelerator"), "tpu-v5e-8"),
])
def test_a_spoiled_object_is_refused(name, path, value):
    assert wrong(put(OBJECTS[name], path, value))
