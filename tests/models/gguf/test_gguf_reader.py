"""GGUF files: tensors under Hugging Face's names, and what is refused."""

import numpy as np
import pytest

from tests.models.gguf.tiny_gguf import byte_pair_header, byte_pair_tokenizer, random_tensors, small, write_gguf
from workings.errors import RequestError
from workings.models.gguf.families import ARCHITECTURES
from workings.models.gguf.reader import GgufFile
from workings.models.gguf.tokenizer import PRE_TOKENIZERS


@pytest.fixture(scope="module")
def header():
    return byte_pair_header(byte_pair_tokenizer(PRE_TOKENIZERS["gpt-2"].cut), "gpt-2")


@pytest.mark.parametrize(("family", "kind"), [
    *((family, "F32") for family in ARCHITECTURES), ("gemma3", "F16"), ("gemma3", "BF16")])
def test_tensors_are_read_under_their_first_names(tmp_path, header, family, kind):
    shape, tensors = small(family), random_tensors(small(family))
    file = GgufFile(write_gguf(tmp_path / "m.gguf", shape, tensors, header, kind))
    assert file.shape == shape
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(file.tensor(name), tensor)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_a_quantized_matrix_is_near_the_first_one(tmp_path, header, kind):
    shape, tensors = small("llama"), random_tensors(small("llama"))
    file = GgufFile(write_gguf(tmp_path / "m.gguf", shape, tensors, header, kind))
    assert file.quantization == kind
    for name in ("model.embed_tokens.weight", "model.layers.1.self_attn.k_proj.weight"):
        assert np.abs(file.tensor(name) - tensors[name]).max() < 0.1
        assert not np.array_equal(file.tensor(name), tensors[name])


def test_files_that_would_be_read_wrongly_are_refused(tmp_path, header):
    shape, tensors = small("llama"), random_tensors(small("llama"))

    def refused(said: str, *arguments, tensors=tensors, **changes):
        with pytest.raises(RequestError, match=said):
            GgufFile(write_gguf(tmp_path / "m.gguf", shape, tensors, header, *arguments, **changes))

    refused("one of 3 files", **{"split.count": 3})
    refused("tensors in Q5_1", "Q5_1")
    refused("lacks blk.5.ffn_up.weight",
            tensors={name: x for name, x in tensors.items() if name != "model.layers.5.mlp.up_proj.weight"})
    refused("output_norm.weight has shape", tensors=tensors | {"model.norm.weight": np.ones(3, np.float32)})
    refused("lacks llama.block_count", **{"llama.block_count": None})


def test_another_kind_of_file_and_one_that_ends_too_early_are_refused(tmp_path, header):
    path = write_gguf(tmp_path / "m.gguf", small("llama"), random_tensors(small("llama")), header)
    for content in (path.read_bytes()[:-4000], b"", b"GGUF", b"no such thing" * 20):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="a whole GGUF file"):
            GgufFile(path)
