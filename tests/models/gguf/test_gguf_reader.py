"""GGUF files: number formats by hand-written rules, tensors under Hugging Face's names, and what is refused."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.models.gguf.tiny_gguf import byte_pair_header, byte_pair_tokenizer, random_tensors, small, write_gguf
from workings.errors import RequestError
from workings.models.gguf.reader import TYPES, GgufFile
from workings.models.gguf.tokenizer import PRE_TOKENIZERS


def scale(block: bytes) -> float:
    return float(np.frombuffer(block, np.float16)[0])


def nibbles(data: bytes) -> list[int]:
    """Low halves of the bytes, then high halves."""
    return [byte & 15 for byte in data] + [byte >> 4 for byte in data]


def high_bits(data: bytes) -> list[int]:
    number = int.from_bytes(data, "little")
    return [number >> at & 1 for at in range(32)]


def q4_0(block):
    return [scale(block[:2]) * (value - 8) for value in nibbles(block[2:])]


def q4_1(block):
    return [scale(block[:2]) * value + scale(block[2:4]) for value in nibbles(block[4:])]


def q5_0(block):
    values = zip(nibbles(block[6:]), high_bits(block[2:6]), strict=True)
    return [scale(block[:2]) * (low + 16 * high - 16) for low, high in values]


def q8_0(block):
    return [scale(block[:2]) * value for value in np.frombuffer(block[2:], np.int8).tolist()]


def six_bits(packed: bytes, at: int) -> tuple[int, int]:
    """Scale and minimum of the eight sub-blocks of a K-quant."""
    if at < 4:
        return packed[at] & 63, packed[at + 4] & 63
    return (packed[at + 4] & 15 | packed[at - 4] >> 6 << 4), (packed[at + 4] >> 4 | packed[at] >> 6 << 4)


def k_quant(block, low_bits, high):
    d, smallest, found = scale(block[:2]), scale(block[2:4]), []
    for at in range(8):
        factor, minimum = six_bits(block[4:16], at)
        half = low_bits[at // 2 * 32:at // 2 * 32 + 32]
        values = [byte >> 4 if at % 2 else byte & 15 for byte in half]
        if high is not None:
            values = [value + 16 * (bits >> at & 1) for value, bits in zip(values, high, strict=True)]
        found += [d * factor * value - smallest * minimum for value in values]
    return found


def q4_k(block):
    return k_quant(block, block[16:], None)


def q5_k(block):
    return k_quant(block, block[48:], block[16:48])


def q6_k(block):
    low, high, scales, d = block[:128], block[128:192], np.frombuffer(block[192:208], np.int8), scale(block[208:])
    found = np.zeros(256)
    for half in range(2):
        for at in range(32):
            bits = high[half * 32 + at]
            for quarter in range(4):
                byte = low[half * 64 + at + (32 if quarter % 2 else 0)]
                value = (byte >> 4 if quarter > 1 else byte & 15) | (bits >> 2 * quarter & 3) << 4
                found[half * 128 + quarter * 32 + at] = d * scales[half * 8 + quarter * 2 + at // 16] * (value - 32)
    return found.tolist()


RULES = {"Q4_0": q4_0, "Q4_1": q4_1, "Q5_0": q5_0, "Q8_0": q8_0, "Q4_K": q4_k, "Q5_K": q5_k, "Q6_K": q6_k}


@pytest.mark.parametrize("kind", RULES)
def test_a_quantized_block_has_the_values_of_its_definition(kind):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    data = np.random.default_rng(0).integers(0, 256, (3, 2, size), np.uint8)
    # The sixteen bits of scales: numbers near one, so that none is infinite.
    places = {"Q4_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,))
    for place in places:
        data[..., place:place + 2] = np.frombuffer(np.float16(0.75).tobytes(), np.uint8)
    found = gguf.quants.dequantize(data.reshape(3, -1), gguf.GGMLQuantizationType[kind])
    expected = [[value for block in row for value in RULES[kind](block.tobytes())] for row in data]
    assert found.shape == (3, 2 * values)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def header():
    return byte_pair_header(byte_pair_tokenizer(PRE_TOKENIZERS["gpt-2"].cut), "gpt-2")


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen2"])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
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
    refused("without blk.5.ffn_up.weight",
            tensors={name: x for name, x in tensors.items() if name != "model.layers.5.mlp.up_proj.weight"})
    refused("output_norm.weight of shape", tensors=tensors | {"model.norm.weight": np.ones(3, np.float32)})
    refused("without llama.block_count", **{"llama.block_count": None})
    assert "Q5_1" not in TYPES


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no such thing" * 20])
def test_another_kind_of_file_is_refused(tmp_path, content):
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(RequestError, match="a whole GGUF file"):
        GgufFile(tmp_path / "m.gguf")


def test_a_file_that_ends_too_early_is_refused(tmp_path, header):
    path = write_gguf(tmp_path / "m.gguf", small("llama"), random_tensors(small("llama")), header)
    Path(path).write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(RequestError, match="a whole GGUF file"):
        GgufFile(path)
