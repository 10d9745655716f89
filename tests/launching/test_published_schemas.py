"""What `launch` writes under excerpts of the published definitions of what reads it.

An excerpt keeps every key at each level that a file of ours reaches, with what is demanded of its value.
"""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.launching.making import EVERY

PUBLISHED = {path.stem: json.loads(path.read_text("utf-8"))
             for path in (Path(__file__).parent / "published").glob("*.json")}
OBJECTS = {name: yaml.safe_load(text) for name, files in EVERY.items() for text in files.values()
           if not text.startswith("#!")}


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_is_one_of_the_published_definition(name):
    schema = Draft202012Validator(PUBLISHED[OBJECTS[name].get("kind", "Task").lower()])
    assert [error.message for error in schema.iter_errors(OBJECTS[name])] == []
    # The excerpt is strict.
    assert not schema.is_valid(OBJECTS[name] | {"anything": 1})
