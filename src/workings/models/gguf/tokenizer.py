"""The tokenizer of a GGUF file as files in Hugging Face's format.

`tokenizer.ggml.model` is `gpt2` (byte-pair encoding with a list of merges) or `llama` (SentencePiece with scores). For
`gpt2`, `tokenizer.ggml.pre` names the rules by which text is cut before pairs are merged (`PRE_TOKENIZERS`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from workings.errors import RequestError

SPACE = "▁"
"""SentencePiece's character for a space."""
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
    """Rules before pairs are merged."""

    cut: Any
    """Pre-tokenizer of the `tokenizers` library, which cuts text into pieces."""
    whole_first: bool = False
    """Whether a piece that is a token is never taken apart (`ignore_merges`)."""
    adds_bos: bool = False
    """Whether sequences begin with BOS if the file does not say so."""
    nfc: bool = False
    """Whether text is normalized to NFC first."""


def _bytes_cut_by(expression: str) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


_PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False)
_LLAMA = PreTokenizer(cut=_bytes_cut_by(_LLAMA3), whole_first=True, adds_bos=True)
_QWEN = PreTokenizer(cut=_bytes_cut_by(_QWEN2), nfc=True)
PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "gpt-2": PreTokenizer(cut=_PLAIN),
    "smollm": PreTokenizer(cut=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _PLAIN])),
    "llama-bpe": _LLAMA, "llama3": _LLAMA, "llama-v3": _LLAMA,
    "smaug-bpe": PreTokenizer(cut=_bytes_cut_by(_LLAMA3)),  # SmolLM3
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
    made, adds_bos = _made(keys, tokens, kinds)
    pairs = list(zip(tokens, kinds, strict=True))
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token, kind in pairs
                             if kind in (Kind.CONTROL, Kind.UNKNOWN)])
    made.add_tokens([AddedToken(token, normalized=False, special=False) for token, kind in pairs
                     if kind == Kind.USER_DEFINED])
    special_tokens = _special_tokens(keys, tokens)
    if adds_bos and "bos_token" in special_tokens:
        bos = special_tokens["bos_token"]
        made.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokens.index(bos))])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **special_tokens}
    if template := header.get("tokenizer.chat_template"):
        settings["chat_template"] = template
    return TokenizerFiles(tokenizer=made.to_str(), settings=settings, special_ids=_special_ids(keys))


def _made(keys: Mapping[str, Any], tokens: Sequence[str], kinds: Sequence[int]) -> tuple[tokenizers.Tokenizer, bool]:
    """The tokenizer, and whether its sequences begin with BOS."""
    # Unused tokens have made-up names, which must not be found in text.
    ids = {token: number for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != Kind.UNUSED}
    model = str(keys.get("model"))
    if model == "llama":
        return _sentence_pieces(ids, keys, tokens, kinds), bool(keys.get("add_bos_token", True))
    if model != "gpt2":
        raise RequestError(f"tokenizer.ggml.model of the GGUF file cannot be {model}",
                           "gpt2 (byte-pair encoding) or llama (SentencePiece)")
    name = str(keys.get("pre", "none"))
    if name not in PRE_TOKENIZERS:
        raise RequestError(f"tokenizer.ggml.pre of the GGUF file cannot be {name}",
                           f"one of {', '.join(PRE_TOKENIZERS)}")
    rules = PRE_TOKENIZERS[name]
    return _byte_pairs(ids, keys, rules), bool(keys.get("add_bos_token", rules.adds_bos))


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
    made.normalizer = normalizers.Replace(" ", SPACE)
    decoding = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if keys.get("add_space_prefix", True):
        made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        decoding.append(decoders.Strip(" ", 1, 0))
    made.decoder = decoders.Sequence(decoding)
    return made


def _merges_of_scores(ids: Mapping[str, int], scores: Sequence[float], kinds: Sequence[int]) -> list[tuple[str, str]]:
    """Merges in SentencePiece's order: those whose result has the best score first.

    A token ``abc`` is the result of the merges ``a bc`` and ``ab c``, if their halves are tokens.
    """
    normal = {token: number for token, number in ids.items() if kinds[number] == Kind.NORMAL}
    merges = []
    for token, number in normal.items():
        pairs = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = sorted((normal[left], normal[right], left, right) for left, right in pairs
                       if left in normal and right in normal)
        merges += [(-scores[number], order, left, right) for order, (_, _, left, right) in enumerate(known)]
    return [(left, right) for _, _, left, right in sorted(merges, key=lambda merge: merge[:2])]


def _special_tokens(keys: Mapping[str, Any], tokens: Sequence[str]) -> dict[str, str]:
    """Texts of special tokens, by Hugging Face's names."""
    ids = {"bos_token": keys.get("bos_token_id"), "eos_token": keys.get("eos_token_id"),
           "unk_token": keys.get("unknown_token_id"), "pad_token": keys.get("padding_token_id")}
    return {name: tokens[int(number)] for name, number in ids.items()
            if number is not None and 0 <= int(number) < len(tokens)}


def _special_ids(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of special tokens, by Hugging Face's names. An answer ends with the end of the text or of the turn."""
    names = {"bos_token_id": "bos_token_id", "padding_token_id": "pad_token_id"}
    ids: dict[str, Any] = {name: int(keys[key]) for key, name in names.items() if key in keys}
    ends = list(dict.fromkeys(int(keys[name]) for name in ("eos_token_id", "eot_token_id") if name in keys))
    if ends:
        ids["eos_token_id"] = ends if len(ends) > 1 else ends[0]
    return ids
