"""Tokenizers of GGUF files: the tokens of the tokenizer that was stored, and what is refused."""

import pytest
import tokenizers
from tokenizers import Regex, pre_tokenizers

from tests.models.gguf.tiny_gguf import TEXTS, byte_pair_header, byte_pair_tokenizer
from workings.errors import RequestError
from workings.models.gguf.tokenizer import read_tokenizer

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
PLAIN_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
PUBLISHED = {
    "gpt-2": BYTES, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),
    "llama-bpe": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), PLAIN_BYTES]),
    "qwen2": pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"), PLAIN_BYTES])}
# A tiny vocabulary of SentencePiece: controls, a user-defined token, bytes, and pieces with scores.
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["▁t", "he", "▁the", "▁", "t", "h", "e", "a", "▁a"]
SENTENCE_PIECE = {
    "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "\n\n", *BYTE_TOKENS, *PIECES],
    "tokenizer.ggml.token_type": [2, 3, 3, 4, *[6] * 256, *[1] * len(PIECES)],
    "tokenizer.ggml.scores": [0.0] * 260 + [-float(at) for at in range(len(PIECES))],
    "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}


def read(header):
    files = read_tokenizer(header)
    return files, tokenizers.Tokenizer.from_str(files.tokenizer)


@pytest.mark.parametrize("pre", PUBLISHED)
def test_byte_pairs_are_those_of_the_published_tokenizer(pre):
    stored = byte_pair_tokenizer(PUBLISHED[pre], whole_first=pre == "llama-bpe")
    _, made = read(byte_pair_header(stored, pre) | {"tokenizer.ggml.add_bos_token": False})
    for text in TEXTS:
        assert made.encode(text).ids == stored.encode(text).ids
        assert made.decode(made.encode(text).ids, skip_special_tokens=False) == text


def tokens(text, **changes):
    return read(SENTENCE_PIECE | changes)[1].encode(text).tokens


def test_pieces_merge_by_their_scores_and_unknown_ones_are_bytes():
    assert tokens("the a", **{"tokenizer.ggml.add_bos_token": False}) == ["▁the", "▁a"]
    assert tokens("the", **{"tokenizer.ggml.add_space_prefix": False}) == ["<s>", "t", "he"]
    assert tokens("a\n\n")[:3] == ["<s>", "▁a", "\n\n"]
    assert tokens("é")[-2:] == ["<0xC3>", "<0xA9>"]
    assert read(SENTENCE_PIECE)[1].decode(read(SENTENCE_PIECE)[1].encode("the á").ids) == "the á"


def test_special_tokens_have_the_names_that_the_file_gives():
    files, made = read(SENTENCE_PIECE | {"tokenizer.ggml.eot_token_id": 3, "tokenizer.ggml.padding_token_id": 0,
                                         "tokenizer.chat_template": "{{ messages }}"})
    assert {name: files.settings[name] for name in ("bos_token", "eos_token", "unk_token", "pad_token")} == {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<unk>"}
    assert files.settings["chat_template"] == "{{ messages }}"
    assert files.special_ids == {"bos_token_id": 1, "pad_token_id": 0, "eos_token_id": [2, 3]}
    assert made.token_to_id("<s>") == 1


def test_tokens_that_fill_up_the_embedding_are_not_found_in_text():
    stored = byte_pair_tokenizer(BYTES)
    header = byte_pair_header(stored, "gpt-2")
    header["tokenizer.ggml.tokens"] = [*header["tokenizer.ggml.tokens"], "[PAD320]"]
    header["tokenizer.ggml.token_type"] = [*header["tokenizer.ggml.token_type"], 5]
    assert read(header)[1].token_to_id("[PAD320]") is None


@pytest.mark.parametrize(("changes", "said"), [
    ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model of the GGUF file cannot be bert"),
    ({"tokenizer.ggml.model": "gpt2"}, "tokenizer.ggml.pre of the GGUF file cannot be default"),
    ({"tokenizer.ggml.tokens": []}, "0 tokens"),
    ({"tokenizer.ggml.token_type": [1]}, "1 kinds of tokens"),
])
def test_another_tokenizer_is_refused_by_name(changes, said):
    with pytest.raises(RequestError, match=said):
        read_tokenizer(SENTENCE_PIECE | changes)
