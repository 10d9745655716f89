"""A tokenizer: text to ids and back, special tokens, chat template, digest.

It reads Hugging Face's files (`tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`) by the `tokenizers`
library. Chat templates write special tokens (`workings.models.chat`), so `encode` does not add them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from workings.errors import RequestError
from workings.models.json_file import read_object, read_text, write_object

MAX_FILE_BYTES = 256 << 20
"""Largest tokenizer.json that is read. Published ones have up to forty megabytes."""
_USUAL_NAMES = {
    "bos_token": ("<bos>", "<s>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos_token": ("<eos>", "</s>", "<|end_of_text|>", "<|endoftext|>"),
    "pad_token": ("<pad>", "<|finetune_right_pad_id|>")}
"""Special tokens of a `tokenizer.json` without a `tokenizer_config.json`: the first of these in its vocabulary."""
_TURN_MARKS = {"<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>",
               "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|end|>"}
"""Control tokens, although some files have them as ordinary added tokens."""


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, backend: tokenizers.Tokenizer, settings: Mapping[str, Any]) -> None:
        self.backend = backend
        self.settings = dict(settings)
        backend.no_truncation()  # the file may set a length
        backend.no_padding()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a directory with `tokenizer.json`, or such a file itself. Raises `RequestError` if it cannot be read."""
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise RequestError(f"there is no tokenizer {path}", "a directory with tokenizer.json, or such a file",
                               "tokenizer=DIRECTORY")
        try:
            backend = tokenizers.Tokenizer.from_str(read_text(file, max_bytes=MAX_FILE_BYTES))
        except RequestError as error:
            raise RequestError(f"tokenizer: {error.given}", error.expected, error.try_next) from None
        except Exception as error:  # the library raises bare Exception for every unreadable file
            raise RequestError(f"the tokenizer {file} cannot be read: {error}",
                               "a tokenizer.json of the tokenizers library") from error
        return cls(backend, _settings(file.parent, backend))

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """Token ids of a text, which may have special tokens.

        With ``add_special`` those are added that `tokenizer.json` puts around every text, mostly BOS or none.
        """
        return list(self.backend.encode(text, add_special_tokens=add_special).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of many texts, computed on all cores."""
        return [encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Text of token ids; with ``skip_special`` control tokens are left out, but not reasoning tags."""
        return str(self.backend.decode(list(ids), skip_special_tokens=skip_special))

    def decode_batch(self, ids: Sequence[list[int]]) -> list[str]:
        """Texts of many sequences of token ids, computed on all cores."""
        return list(self.backend.decode_batch(list(ids), skip_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        """Id of a token, or None if the vocabulary does not have it."""
        return self.backend.token_to_id(token)

    def token(self, token_id: int) -> str:
        """The token with this id, as the vocabulary spells it."""
        return str(self.backend.id_to_token(token_id))

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Tokens that structure a conversation and never belong to a user's text, with their ids."""
        added = self.backend.get_added_tokens_decoder()
        named = {self.special_text(name) for name in _USUAL_NAMES} | _TURN_MARKS
        return {token.content: token_id for token_id, token in added.items() if token.special or token.content in named}

    @cached_property
    def control_ids(self) -> frozenset[int]:
        """Ids of `control_tokens`."""
        return frozenset(self.control_tokens.values())

    @cached_property
    def bos_id(self) -> int | None:
        """Id of the token that begins a sequence, or None (Qwen)."""
        return self._special("bos_token")

    @cached_property
    def eos_id(self) -> int | None:
        """Id of the token that ends a text, or None."""
        return self._special("eos_token")

    @cached_property
    def pad_id(self) -> int:
        """Id that fills the end of rows; 0 if the tokenizer has none, because padding is neither seen nor trained."""
        return self._special("pad_token") or 0

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of every token, added ones included."""
        return dict(self.backend.get_vocab(with_added_tokens=True))

    @cached_property
    def vocab_size(self) -> int:
        """Highest id plus one: the rows that an embedding needs. Ids may have gaps."""
        return max(self.ids.values()) + 1

    @property
    def chat_template(self) -> str | None:
        """Source of the tokenizer's own chat template, or None."""
        return _chat_template(self.settings)

    @cached_property
    def digest(self) -> str:
        """`tokenizer_digest` of its files."""
        return tokenizer_digest(self.to_json(), self.settings)

    def to_json(self) -> dict[str, Any]:
        """Content of its `tokenizer.json`."""
        return dict(json.loads(self.backend.to_str()))

    def is_cut(self, text: str) -> bool:
        """Whether a normalized text is cut into several pieces before pairs are merged."""
        cutter = self.backend.pre_tokenizer
        return cutter is not None and len(cutter.pre_tokenize_str(text)) > 1

    def special_text(self, name: str) -> str:
        """Text of `bos_token`, `eos_token` or `pad_token`; empty if the tokenizer has none."""
        return _special_text(self.settings, name)

    def save(self, directory: Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, chat template included, as transformers reads them."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tokenizer.json").write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | self.settings
        write_object(directory / "tokenizer_config.json", settings)

    def _special(self, name: str) -> int | None:
        text = self.special_text(name)
        if not text:
            return None
        token_id = self.token_id(text)
        if token_id is None:
            raise RequestError(f"the vocabulary of the tokenizer lacks {name}, {text!r}",
                               "a tokenizer whose files agree with each other")
        return token_id


def tokenizer_digest(tokenizer: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """SHA-256, as hex, over the parsed content of `tokenizer.json`, the special tokens and the chat template."""
    parts = {"tokenizer": tokenizer, "chat_template": _chat_template(settings) or "",
             "special": {name: text for name in _USUAL_NAMES if (text := _special_text(settings, name))}}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _chat_template(settings: Mapping[str, Any]) -> str | None:
    template = settings.get("chat_template")
    if isinstance(template, list):  # templates with names
        by_name = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = by_name.get("default")
    return template if isinstance(template, str) else None


def _special_text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    if isinstance(value, dict):  # older files store the token with its matching rules
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _settings(directory: Path, backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """Content of `tokenizer_config.json`, or what can be known without it; chat template included."""
    config = directory / "tokenizer_config.json"
    if config.is_file():
        settings = read_object(config)
        settings.pop("added_tokens_decoder", None)  # repeats tokenizer.json
    else:
        settings = {}
        for name, usual in _USUAL_NAMES.items():
            known = [text for text in usual if backend.token_to_id(text) is not None]
            if known:
                settings[name] = known[0]
    # A template in its own file wins.
    template_file = directory / "chat_template.jinja"
    if template_file.is_file():
        settings["chat_template"] = read_text(template_file)
    return settings
