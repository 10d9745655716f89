"""Models named by GGUF files: found as a file, in a folder and in packages, and converted once into a folder."""

import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.models.gguf.tiny_gguf import byte_pair_header, byte_pair_tokenizer, random_tensors, small, write_gguf
from workings.engines.safetensors_file import TensorFile
from workings.errors import RequestError
from workings.inputs.gguf import ORIGIN_FILE, converted, find_gguf, origin_facts
from workings.inputs.resolve import local_folder, locate_weights
from workings.models.gguf.tokenizer import PRE_TOKENIZERS
from workings.models.hub import GGUF, is_local
from workings.models.shapes import from_hf_config
from workings.models.tokenizer import Tokenizer
from workings.record.digest import file_digest

SHAPE = small("llama")
HEADER = byte_pair_header(byte_pair_tokenizer(PRE_TOKENIZERS["gpt-2"].cut), "gpt-2") | {
    "general.license": "apache-2.0", "general.file_type": 3}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path, cache):
    (tmp_path / "models").mkdir()
    return write_gguf(tmp_path / "models" / "tiny.Q4_1.gguf", SHAPE, random_tensors(SHAPE), HEADER, "Q4_1")


def install(site: Path, name: str, files: dict[str, bytes], **metadata: str) -> None:
    """A package as pip leaves it."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = {"Metadata-Version": "2.1", "Name": name, "Version": "1.0", **metadata}
    (info / "METADATA").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
    names = [*files, f"{info.name}/METADATA", f"{info.name}/RECORD"]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in names))


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_a_file_and_its_folder_are_converted_once(file, cache, capsys):
    weights = locate_weights(str(file), "main", [Path.cwd()])
    said = capsys.readouterr().err
    assert "Q4_1 of tiny, dequantized to bf16" in said
    assert "Licence: apache-2.0" in said
    assert weights.revision == f"{GGUF}{file_digest(file)}"
    assert is_local(weights.revision)
    before = (weights.folder / "model.safetensors").stat()
    assert locate_weights(file.parent.name, "main", [file.parent.parent]).directory == weights.directory
    assert local_folder(str(file), [Path.cwd()]) == weights.directory
    assert (weights.folder / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert capsys.readouterr().err == ""


def test_the_folder_has_everything_that_a_model_needs(file):
    folder = locate_weights(str(file), "main", [Path.cwd()]).folder
    config = json.loads((folder / "config.json").read_text())
    assert from_hf_config(config) == SHAPE
    assert (config["bos_token_id"], config["eos_token_id"]) == (0, 1)
    assert Tokenizer.load(folder).special_text("eos_token") == "<|im_end|>"
    origin = origin_facts(folder)
    assert (origin["file"], origin["sha256"], origin["quantization"]) == ("tiny.Q4_1.gguf", file_digest(file), "Q4_1")
    assert "apache-2.0" in (folder / "NOTICE").read_text()
    stored = TensorFile(folder / "model.safetensors")
    assert {str(stored.dtype(name)) for name in stored.names()} == {"bfloat16"}
    largest = max(float(np.abs(stored.read(name).astype(np.float32) - tensor).max())
                  for name, tensor in random_tensors(SHAPE).items())
    assert largest < 0.1


def test_two_at_once_make_one_folder(file, cache):
    source, found = find_gguf(str(file), [Path.cwd()]), []
    threads = [threading.Thread(target=lambda: found.append(converted(source)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*found}) == 1
    assert len(found) == 3
    assert [path.name for path in found[0].parent.iterdir()] == ["tiny"]


def test_a_conversion_that_fails_leaves_nothing(tmp_path, cache):
    path = write_gguf(tmp_path / "m.gguf", SHAPE, random_tensors(SHAPE), HEADER | {"tokenizer.ggml.pre": "none such"})
    with pytest.raises(RequestError, match="none such"):
        locate_weights(str(path), "main", [Path.cwd()])
    assert not [*cache.rglob(ORIGIN_FILE)]
    assert not [*cache.rglob(".converting-*")]


def test_an_installed_package_is_found_by_its_name(file, site):
    install(site, "llm-tiny", {"llm_tiny/tiny.Q4_1.gguf": file.read_bytes(),
                               "llm_tiny-1.0.dist-info/LICENSE": b"the terms"}, License="Apache-2.0")
    folder = locate_weights("package:llm-tiny", "main", []).folder
    assert origin_facts(folder)["packages"] == ["llm-tiny 1.0"]
    assert (folder / "LICENSE").read_text() == "the terms"
    assert not (folder / "NOTICE").exists()


def test_a_file_in_pieces_is_put_together(file, site, cache):
    data = file.read_bytes()
    for number in (1, 2, 3):
        part = data[(number - 1) * 9000:number * 9000 if number < 3 else None]
        install(site, f"tiny-gguf-part{number}", {f"tiny_part{number}/tiny.Q4_1.gguf.part0{number - 1}": part})
    weights = locate_weights("package:tiny-gguf", "main", [])
    assert weights.revision == f"{GGUF}{file_digest(file)}"
    assert {*TensorFile(weights.folder / "model.safetensors").names()} == {*random_tensors(SHAPE)}
    assert not [*cache.rglob(".joining-*")]


def test_a_missing_piece_is_named(file, site):
    for number in (1, 3):
        install(site, f"tiny-gguf-part{number}", {f"tiny_part{number}/tiny.gguf.part0{number - 1}": b"GGUF"})
    with pytest.raises(RequestError, match="the pieces 0, 2"):
        find_gguf("package:tiny-gguf", [])


def test_what_is_not_there_is_said_in_one_sentence(tmp_path, site, file):
    install(site, "empty", {"empty/__init__.py": b""})
    for name, said in (("package:empty", "ships no GGUF file"), ("package:none-such", "is not installed"),
                       ("package:", "is not installed"), ("none.gguf", "there is no file none.gguf")):
        with pytest.raises(RequestError, match=said):
            locate_weights(name, "main", [tmp_path])
    (file.parent / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(RequestError, match="2 GGUF files"):
        locate_weights("models", "main", [tmp_path])


def test_without_the_package_gguf_the_message_says_what_to_install(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(RequestError, match=r"workings\[gguf\]"):
        locate_weights(str(file), "main", [Path.cwd()])
