"""The tokenizer in a GGUF file as files of Hugging Face: byte-pair encoding with merges, or SentencePiece with scores.

A GGUF file names its pre-tokenizer, the rules by which text is cut before pairs are merged, by a word
(`tokenizer.ggml.pre`). The expressions here are those of the published tokenizers that the words represent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from workings.errors import RequestError

SPACE = "▁"
"""Represents a space in SentencePiece's tokens."""
_LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")


class Kind(IntEnum):
    """Values of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, kw_only=True)
class PreTokenizer:
    """How text is cut before pairs are merged."""

    cut: Any
    """Pre-tokenizer of the `tokenizers` library."""
    whole_first: bool = False
    """Whether a piece that is a token is never taken apart (`ignore_merges`)."""
    begins: bool = False
    """Whether sequences begin with BOS where the file does not say it."""
    nfc: bool = False
    """Whether text is normalized to NFC before."""


def _bytes_cut_by(expression: str) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


_PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False)
_LLAMA = PreTokenizer(cut=_bytes_cut_by(_LLAMA3), whole_first=True, begins=True)
_QWEN = PreTokenizer(cut=_bytes_cut_by(_QWEN2), nfc=True)
PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "gpt-2": PreTokenizer(cut=_PLAIN),
    "smollm": PreTokenizer(cut=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _PLAIN])),
    "llama-bpe": _LLAMA, "llama3": _LLAMA, "llama-v3": _LLAMA,
    # SmolLM3: Llama 3's expression, and only merges.
    "smaug-bpe": PreTokenizer(cut=_bytes_cut_by(_LLAMA3)),
    "qwen2": _QWEN, "deepseek-r1-qwen": _QWEN, "qwen35": PreTokenizer(cut=_bytes_cut_by(_QWEN35), nfc=True),
}
"""`tokenizer.ggml.pre` -> its rules."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """A tokenizer in Hugging Face's format."""

    tokenizer: str
    """Content of ``tokenizer.json``."""
    settings: dict[str, Any]
    """Content of ``tokenizer_config.json``, chat template included."""
    special_ids: dict[str, Any]
    """``bos_token_id``, ``eos_token_id`` and ``pad_token_id``, for ``config.json`` and ``generation_config.json``."""


def read_tokenizer(header: Mapping[str, Any]) -> TokenizerFiles:
    """The tokenizer of a GGUF file, from its header. Raises `RequestError` for a kind that is not read."""
    keys = {key.removeprefix("tokenizer.ggml."): value for key, value in header.items()}
    tokens = list(keys.get("tokens", ()))
    kinds = [int(kind) for kind in keys.get("token_type", [Kind.NORMAL] * len(tokens))]
    if not tokens or len(kinds) != len(tokens):
        raise RequestError(f"the GGUF file lists {len(tokens):,} tokens and {len(kinds):,} kinds of tokens",
                           "a GGUF file with a tokenizer")
    made, begins = _made(keys, tokens, kinds)
    for add, special, of in ((made.add_special_tokens, True, (Kind.CONTROL, Kind.UNKNOWN)),
                             (made.add_tokens, False, (Kind.USER_DEFINED,))):
        add([AddedToken(token, normalized=False, special=special)
             for token, kind in zip(tokens, kinds, strict=True) if kind in of])
    named = _special_tokens(keys, tokens)
    if begins and "bos_token" in named:
        bos = named["bos_token"]
        made.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokens.index(bos))])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **named}
    if template := header.get("tokenizer.chat_template"):
        settings["chat_template"] = template
    return TokenizerFiles(tokenizer=made.to_str(), settings=settings, special_ids=_special_ids(keys))


def _made(keys: Mapping[str, Any], tokens: Sequence[str], kinds: Sequence[int]) -> tuple[tokenizers.Tokenizer, bool]:
    """The tokenizer, and whether its sequences begin with BOS."""
    # Tokens that only fill up the embedding have made-up names, which must not be found in text.
    ids = {token: number for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
           if kind != Kind.UNUSED}
    kind = str(keys.get("model"))
    if kind == "gpt2":
        name = str(keys.get("pre", "none"))
        if name not in PRE_TOKENIZERS:
            raise RequestError(f"tokenizer.ggml.pre of the GGUF file cannot be {name}",
                               f"one of {', '.join(PRE_TOKENIZERS)}")
        rules = PRE_TOKENIZERS[name]
        return _byte_pairs(ids, keys, rules), bool(keys.get("add_bos_token", rules.begins))
    if kind == "llama":
        return _sentence_pieces(ids, keys, tokens, kinds), bool(keys.get("add_bos_token", True))
    raise RequestError(f"tokenizer.ggml.model of the GGUF file cannot be {kind}", "gpt2 (byte-pair encoding) or llama "
                       "(SentencePiece)")


def _byte_pairs(ids: dict[str, int], keys: Mapping[str, Any], rules: PreTokenizer) -> tokenizers.Tokenizer:
    merges = [tuple(pair.split(" ", 1)) for pair in keys.get("merges", ())]
    made = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=rules.whole_first))
    if rules.nfc:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer, made.decoder = rules.cut, decoders.ByteLevel()
    return made


def _sentence_pieces(ids: dict[str, int], keys: Mapping[str, Any], tokens: Sequence[str],
                     kinds: Sequence[int]) -> tokenizers.Tokenizer:
    unknown = keys.get("unknown_token_id")
    merges = _merges_of_scores(ids, [float(score) for score in keys.get("scores", ())], kinds)
    made = tokenizers.Tokenizer(models.BPE(
        ids, merges, unk_token=None if unknown is None else tokens[int(unknown)], fuse_unk=True,
        byte_fallback=Kind.BYTE in kinds))
    spaces, begin = normalizers.Replace(" ", SPACE), bool(keys.get("add_space_prefix", True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if begin else spaces
    made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                      *([decoders.Strip(" ", 1, 0)] if begin else [])])
    return made


def _merges_of_scores(ids: Mapping[str, int], scores: Sequence[float],
                      kinds: Sequence[int]) -> list[tuple[str, str]]:
    """SentencePiece's order of merges: the token of the best score first, regardless of its two pieces."""
    normal = {token: number for token, number in ids.items() if kinds[number] == Kind.NORMAL}
    merges = []
    for token, number in normal.items():
        pairs = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = sorted((normal[left], normal[right], left, right) for left, right in pairs
                       if left in normal and right in normal)
        merges += [(-scores[number], order, left, right) for order, (_, _, left, right) in enumerate(known)]
    return [(left, right) for _, _, left, right in sorted(merges, key=lambda merge: merge[:2])]


def _special_tokens(keys: Mapping[str, Any], tokens: Sequence[str]) -> dict[str, str]:
    ids = {f"{name}_token": keys.get(f"{key}_token_id") for name, key in (
        ("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))}
    return {name: tokens[int(number)] for name, number in ids.items()
            if number is not None and 0 <= int(number) < len(tokens)}


def _special_ids(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Ids by Hugging Face's names; of a chat model the end of a turn ends an answer, too."""
    ids: dict[str, Any] = {f"{ours}_token_id": int(keys[f"{theirs}_token_id"]) for ours, theirs in (
        ("bos", "bos"), ("pad", "padding")) if f"{theirs}_token_id" in keys}
    if ends := list(dict.fromkeys(int(keys[name]) for name in ("eos_token_id", "eot_token_id") if name in keys)):
        ids["eos_token_id"] = ends if len(ends) > 1 else ends[0]
    return ids
