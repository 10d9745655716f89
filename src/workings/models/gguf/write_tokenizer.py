"""A tokenizer as the header of a GGUF file, from the rules in its `tokenizer.json`.

llama.cpp merges in two ways. ``gpt2`` and ``gemma4`` merge by a list of pairs, as the `tokenizers` library does.
``llama`` merges any two neighbors whose text is a token, best score first (Gemma 1 to 3).
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from workings.errors import RequestError
from workings.models.gguf.tokenizer import PRE_TOKENIZERS, SPACE, Kind
from workings.models.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_DIGITS = r"\p{N}"
_GPT2 = "GPT-2's expression"


def write_tokenizer(writer: "GGUFWriter", tokenizer: Tokenizer, rows: int) -> None:
    """Write tokens, merges and rules of a tokenizer, without special tokens and chat template.

    ``rows``: rows of the embedding; those without a token are marked as unused. Raises `RequestError` if llama.cpp has
    no rule that cuts and merges a text as this tokenizer does.
    """
    content = tokenizer.to_json()
    if content["model"]["type"] != "BPE":
        raise _unknown(f"of kind {content['model']['type']}")
    merges = [(left, right) for left, right in content["model"]["merges"]]
    texts = {number: text for text, number in tokenizer.ids.items()}
    if any(number >= rows for number in texts):
        raise _unknown(f"with ids up to {max(texts)} next to an embedding of {rows} rows")
    rules = _find_rules(tokenizer, content, merges)
    writer.add_tokenizer_model(rules.model)
    writer.add_tokenizer_pre(rules.pre)
    # llama.cpp looks tokens up by their texts, so unused rows need one.
    writer.add_token_list([texts.get(i, f"[PAD{i}]") for i in range(rows)])
    writer.add_token_types(_token_types(tokenizer, content, rules, rows))
    if rules.model == "llama":
        writer.add_token_scores(_scores(tokenizer.ids, merges, rows))
    else:
        writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.add_add_space_prefix(rules.space_prefix)


class _Rules(NamedTuple):
    """`tokenizer.ggml.model`, `tokenizer.ggml.pre`, and whether a space is put before every text."""

    model: str
    pre: str
    space_prefix: bool = False


def _find_rules(tokenizer: Tokenizer, content: Mapping[str, Any], merges: list[tuple[str, str]]) -> _Rules:
    normalizers = _parts(content["normalizer"], "normalizers")
    kinds = [each["type"] for each in normalizers]
    if kinds in (["Replace"], ["Prepend", "Replace"]):
        return _space_rules(tokenizer, content, merges, prefix=kinds[0] == "Prepend")
    # llama.cpp does not compose characters, but nearly all texts are in NFC already.
    if kinds not in ([], ["NFC"]):
        raise _unknown(f"with the normalizers {', '.join(kinds)}")
    cuts, whole_first = list(_cuts(content["pre_tokenizer"])), bool(content["model"].get("ignore_merges"))
    for name, known in PRE_TOKENIZERS.items():
        if whole_first == known.whole_first and cuts == list(_cuts(json.loads(known.cut.__getstate__()))):
            return _Rules(model="gpt2", pre=name)
    raise _unknown(f"that cuts texts by {' and '.join(cuts) or 'nothing'}")


def _space_rules(tokenizer: Tokenizer, content: Mapping[str, Any], merges: list[tuple[str, str]], *,
                 prefix: bool) -> _Rules:
    """Rules of a tokenizer that writes spaces as `SPACE` and unknown characters as bytes."""
    replacement = _parts(content["normalizer"], "normalizers")[-1]
    if (replacement["pattern"], replacement["content"]) != ({"String": " "}, SPACE):
        raise _unknown(f"that replaces {replacement['pattern']} by {replacement['content']}")
    if not content["model"]["byte_fallback"]:
        raise _unknown("that has no bytes for unknown characters")
    # llama.cpp cuts such a text only at line breaks. Other cuts change nothing if no merge crosses one.
    for product in {left + right for left, right in merges}:
        if tokenizer.is_cut(product):
            raise _unknown(f"that cuts {product!r} apart, which is a token")
    if _merges_any_neighbors(tokenizer.ids, content, merges):
        return _Rules(model="llama", pre="default", space_prefix=prefix)
    if prefix:
        raise _unknown("that puts a space before a text and merges only some pairs")
    return _Rules(model="gemma4", pre="gemma4")


def _merges_any_neighbors(ids: Mapping[str, int], content: Mapping[str, Any], merges: list[tuple[str, str]]) -> bool:
    """Whether merging by a score of each token, as SentencePiece does, gives the same tokens as this list of merges.

    It does if every pair whose text is a token is in the list, and all pairs of a token are next to each other.
    """
    products = [left + right for left, right in merges]
    if sum(1 for _ in groupby(products)) != len(set(products)):
        return False
    added, pairs = {each["content"] for each in content["added_tokens"]}, set(merges)
    for text in ids:
        if text in added or _BYTE.fullmatch(text):
            continue
        for at in range(1, len(text)):
            left, right = text[:at], text[at:]
            if left in ids and right in ids and (left, right) not in pairs:
                return False
    return True


def _scores(ids: Mapping[str, int], merges: list[tuple[str, str]], rows: int) -> list[float]:
    """A score for each id: minus the place of its first merge. Ids that no merge makes have the lowest score."""
    scores = [-float(len(merges))] * rows
    for place, (left, right) in reversed(list(enumerate(merges))):
        scores[ids[left + right]] = -float(place)
    return scores


def _token_types(tokenizer: Tokenizer, content: Mapping[str, Any], rules: _Rules, rows: int) -> list[int]:
    """`tokenizer.ggml.token_type`: a `Kind` for each id."""
    types = [Kind.UNUSED] * rows
    for text, number in tokenizer.ids.items():
        is_byte = rules.model != "gpt2" and _BYTE.fullmatch(text)
        types[number] = Kind.BYTE if is_byte else Kind.NORMAL
    for token in content["added_tokens"]:
        is_control = token["id"] in tokenizer.control_ids
        types[token["id"]] = Kind.CONTROL if is_control else Kind.USER_DEFINED
    unknown = tokenizer.ids.get(content["model"]["unk_token"] or "")
    if unknown is not None and rules.model == "llama":
        types[unknown] = Kind.UNKNOWN
    return [int(each) for each in types]


def _cuts(pre_tokenizer: Mapping[str, Any] | None) -> Iterator[str]:
    """Expressions by which a byte-level pre-tokenizer cuts a text, in their order."""
    parts = _parts(pre_tokenizer, "pretokenizers")
    if not parts or parts[-1]["type"] != "ByteLevel" or parts[-1]["add_prefix_space"]:
        raise _unknown("that does not work on bytes")
    for part in parts:
        if part["type"] == "ByteLevel":
            if part["use_regex"]:
                yield _GPT2
        elif part["type"] == "Digits" and part["individual_digits"]:
            yield _DIGITS
        elif part["type"] == "Split" and (part["behavior"], part["invert"]) in (("Isolated", False), ("Removed", True)):
            yield part["pattern"].get("Regex", str(part["pattern"]))
        else:
            raise _unknown(f"that cuts texts by {part['type']}")


def _parts(value: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """The members of a sequence in `tokenizer.json`, or the single object in its place."""
    if value is None:
        return []
    return list(value[name]) if value["type"] == "Sequence" else [value]


def _unknown(what: str) -> RequestError:
    return RequestError(f"--format gguf cannot hold a tokenizer {what}", "a tokenizer that llama.cpp has rules for",
                        "--format safetensors")
