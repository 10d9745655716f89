"""Data and weights in object stores, by fsspec's own stores in memory and on disk."""

import json
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pytest
from safetensors.numpy import save_file

from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.inputs.datasets import find_data
from workings.inputs.object_store import STORED, copy, is_stored, listing, local_name
from workings.inputs.resolve import fetch_tensors, find_shape, locate_weights, weight_digests
from workings.models.hub import SMALL
from workings.record.digest import file_digest

TRACE = {"id": "a", "prompt": "1+1?", "steps": ["1+1=2"], "answer": "2"}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """An empty store in memory, and its own cache."""
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    yield SimpleNamespace(url=f"memory://{tmp_path.name}", put=lambda name, data: store.pipe_file(
        f"/{tmp_path.name}/{name}", data))
    if store.exists(f"/{tmp_path.name}"):
        store.rm(f"/{tmp_path.name}", recursive=True)


def test_addresses_are_told_from_paths_and_ids():
    assert [is_stored(name) for name in ("gs://b/a", "s3://b/a", "memory://a", "a/b", "google/gemma-2b", "C:/a", "")] \
        == [True, True, True, False, False, False, False]
    assert local_name("dev-reasoning") == "dev-reasoning"


def test_traces_of_a_store_are_read_and_known_by_the_digest_of_their_bytes(bucket, tmp_path):
    here = tmp_path / "here.jsonl"
    here.write_text(json.dumps(TRACE) + "\n")
    bucket.put("data/traces.jsonl", here.read_bytes())
    data = find_data(load_recipe("smoke-tiny", [f"data.traces={bucket.url}/data/traces.jsonl"]))
    assert [trace.prompt for trace in data.examples] == ["1+1?"]
    assert data.digests["traces"] == file_digest(here)


def test_a_copy_is_used_again_until_the_object_changes(bucket):
    bucket.put("a.txt", b"one")
    first = Path(local_name(f"{bucket.url}/a.txt"))
    inode = first.stat().st_ino
    assert Path(local_name(f"{bucket.url}/a.txt")).stat().st_ino == inode
    bucket.put("a.txt", b"other")
    second = Path(local_name(f"{bucket.url}/a.txt"))
    assert (first.read_bytes(), second.read_bytes(), second.name) == (b"one", b"other", "a.txt")


def test_weights_of_a_store_are_copied_when_they_are_needed_with_their_digests(bucket, tmp_path):
    config = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 1, "vocab_size": 16, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
              "rope_theta": 1e4}
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    for name, data in {"config.json": json.dumps(config).encode(), "notes.bin": b"never copied",
                       "model.safetensors": (tmp_path / "model.safetensors").read_bytes()}.items():
        bucket.put(f"m/{name}", data)
    small = locate_weights(f"{bucket.url}/m", "main", [], tensors=False)
    assert ([path.name for path in small.directory.iterdir()], small.revision) == (["config.json"], STORED)
    assert "config.json" in SMALL
    fetch_tensors(small)
    assert weight_digests(small.directory) == {"model.safetensors": file_digest(tmp_path / "model.safetensors")}
    loaded = load_recipe("smoke-tiny", [f"model={{source: pretrained, id: {bucket.url}/m}}", "tokenizer=model"])
    assert find_shape(loaded).width == 8
    bucket.put("m/config.json", json.dumps(config | {"vocab_size": 32}).encode())
    with pytest.raises(RequestError, match="changed while it was being read"):
        fetch_tensors(small)


@pytest.mark.parametrize(("name", "said"), [
    ("memory://nowhere/a.jsonl", "FileNotFoundError"),
    ("nosuchstore://a/b", "nosuchstore://a/b begins with an unknown scheme")])
def test_what_is_not_there_is_said(bucket, name, said):
    with pytest.raises(RequestError, match=said):
        local_name(name)


def test_a_folder_in_place_of_a_file_and_an_empty_one_are_refused(bucket):
    bucket.put("d/a.txt", b"one")
    with pytest.raises(RequestError, match="a folder\nexpected: an object"):
        local_name(f"{bucket.url}/d")
    with pytest.raises(RequestError, match="is empty"):
        locate_weights(f"{bucket.url}/none", "main", [])


def test_an_absent_package_is_named_with_the_extra(monkeypatch):
    def absent(scheme):
        raise ImportError(f"Please install gcsfs to access {scheme}")
    monkeypatch.setattr(fsspec, "filesystem", absent)
    with pytest.raises(RequestError, match=r"install gcsfs(.|\n)*workings\[stores\]"):
        local_name("gs://bucket/traces.jsonl")


class Hostile:
    """A store that says what it is told to."""

    def __init__(self, names, size=3):
        self.names, self.size = names, size

    def _strip_protocol(self, url):
        return "b"

    def find(self, root, detail):
        return {f"b/{name}": {"size": self.size} for name in self.names}

    def get_file(self, there, here):
        Path(here).write_bytes(b"one")


@pytest.mark.parametrize("name", ["../a", "a/../../b", "a\\b"])
def test_a_name_that_leads_out_of_its_folder_is_refused(name):
    with pytest.raises(RequestError, match="stay below their folder"):
        listing(Hostile([name]), "gs://b")


def test_a_copy_that_is_cut_short_leaves_nothing(tmp_path):
    store = Hostile(["a"], size=4)
    with pytest.raises(RequestError, match="3 bytes were received instead of 4"):
        copy(store, "gs://b", listing(store, "gs://b"), tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []
