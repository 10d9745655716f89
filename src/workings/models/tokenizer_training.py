"""Trains a small tokenizer like Gemma's: byte-pair encoding with single digits, and bytes for unknown characters.

Merged digits would hide the columns of an addition from the model, which could not learn to carry.
"""

import json
from collections.abc import Iterable
from importlib.resources import files

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from workings.errors import RequestError
from workings.models.tokenizer import Tokenizer

CONTROL_TOKENS = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
"""Gemma's names; the first four have Gemma's ids, 0 to 3."""
TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>", "<think>", "</think>")
"""Tokens that `decode` keeps, for the extraction of answers."""
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Train on texts without control tokens; equal texts give equal tokenizers.

    ``vocab_size`` is an upper bound. Raises `RequestError` if it is too small for control tokens, tags, bytes and the
    characters of the texts.
    """
    backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    # No merge crosses these cuts. A space belongs to the word before it.
    backend.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(r"\d"), "isolated"),
        pre_tokenizers.Split("\n", "isolated"),
        pre_tokenizers.Split("▁", "merged_with_previous")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(
        vocab_size=max(vocab_size - len(TAGS), 0),  # tags are added after the training
        special_tokens=[*CONTROL_TOKENS, *_BYTES], show_progress=False, initial_alphabet=list("0123456789"))
    # With every text, so that `user` and `model` of Gemma's turns become single tokens.
    backend.train_from_iterator((part for text in texts for part in ("user\nmodel\n", text)), trainer)
    tokenizer = Tokenizer(_bytes_are_ordinary(backend), {
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
        "chat_template": files("workings.models").joinpath("templates/gemma.jinja").read_text(encoding="utf-8")})
    if tokenizer.vocab_size > vocab_size:
        raise RequestError(f"a vocabulary of {vocab_size} tokens is too small",
                           f"at least {tokenizer.vocab_size}: control tokens, tags, bytes and the texts' characters",
                           f"a vocabulary of {tokenizer.vocab_size + 60}")
    return tokenizer


def _bytes_are_ordinary(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The tokenizer with tags, and with bytes as ordinary tokens: special ones would be skipped in decoding."""
    content = json.loads(backend.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in CONTROL_TOKENS]
    plain = tokenizers.Tokenizer.from_str(json.dumps(content))
    plain.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return plain
