"""Tokenizers in GGUF files: llama.cpp cuts texts as the tokenizers library does, and our reader gives the same back."""

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from tests.models.gguf.tiny_gguf import TEXTS, byte_pair_tokenizer, random_tensors, small
from tests.publish.llama_cpp import llama_cpp
from workings.engines.safetensors_file import write_tensors
from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.gguf.reader import GgufFile
from workings.models.gguf.tokenizer import PRE_TOKENIZERS, read_tokenizer
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.gguf_file import write_gguf

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")


def byte_pairs(pre: str) -> Tokenizer:
    rules = PRE_TOKENIZERS[pre]
    made = byte_pair_tokenizer(rules.cut, whole_first=rules.whole_first)
    return Tokenizer(made, {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})


def pieces(vocabulary: int) -> Tokenizer:
    return train_tokenizer([*TEXTS, Path(__file__).read_text()], vocabulary)


TOKENIZERS = dict.fromkeys(("gpt-2", "smollm", "llama-bpe", "smaug-bpe", "qwen2", "qwen35"), byte_pairs) | {
    # With few merges any two neighbors whose text is a token are merged.
    "llama": lambda _: pieces(390), "gemma4": lambda _: pieces(900)}


def written(tokenizer: Tokenizer, folder: Path, family: str = "llama") -> Path:
    """A tiny model with random weights and this tokenizer, as a GGUF file."""
    shape = from_hf_config(to_hf_config(small(family)) | {"vocab_size": tokenizer.vocab_size})
    tensors = random_tensors(shape)
    write_tensors(folder / "model.safetensors", {name: (x.dtype, x.shape) for name, x in tensors.items()},
                  tensors.__getitem__)
    (folder / "config.json").write_text(json.dumps(to_hf_config(shape)))
    template = ChatTemplate.for_config("plain", tokenizer)
    write_gguf(folder, folder / "model.gguf", "bf16", template, StopTokens.of(template, None), "tiny")
    return folder / "model.gguf"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_llama_cpp_cuts_texts_into_as_many_tokens(name: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[name](name)
    file = written(tokenizer, tmp_path)
    header = GgufFile(file).header
    assert name in (header["tokenizer.ggml.model"], header["tokenizer.ggml.pre"])
    with llama_cpp(file) as server:
        for text in filter(None, TEXTS):
            said = server.handle_completions({"prompt": text, "max_tokens": 1, "temperature": 0.0})
            assert said["usage"]["prompt_tokens"] == len(tokenizer.encode(text)) + 1, text


@pytest.mark.parametrize("name", ["smollm", "qwen2", "llama"])
def test_our_reader_gives_the_same_tokens_and_weights_back(name: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[name](name)
    family = "gemma2" if name == "llama" else "qwen2"
    read = GgufFile(written(tokenizer, tmp_path, family))
    back = tokenizers.Tokenizer.from_str(read_tokenizer(read.header).tokenizer)
    assert [back.encode(text, add_special_tokens=False).ids for text in TEXTS] == tokenizer.encode_batch(TEXTS)
    for stored, x in random_tensors(read.shape).items():
        # To bfloat16 and no further.
        np.testing.assert_allclose(read.tensor(stored), x, rtol=2 ** -8, atol=2 ** -8, err_msg=stored)


def test_a_tokenizer_without_rules_in_llama_cpp_is_refused_by_what_it_does(tmp_path: Path) -> None:
    cut = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex("[aeiou]"), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = Tokenizer(byte_pair_tokenizer(cut), {"eos_token": "<|im_end|>"})
    with pytest.raises(RequestError, match=r"cuts texts by \[aeiou\]"):
        written(tokenizer, tmp_path)
