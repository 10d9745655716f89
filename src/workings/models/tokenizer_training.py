"""Train a small tokenizer in the manner of Gemma's: digits one by one, no word for a number, nothing lost.

A tokenizer that merges digits hides the columns of an addition from the model, which then cannot learn to carry.
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
"""Texts with their own token that `decode` keeps, for the extraction of answers."""
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Train byte-pair encoding on texts without control tokens; equal texts give equal tokenizers.

    ``vocab_size`` is an upper bound. Raises `RequestError` where it does not hold what is always there and the
    characters of the texts.
    """
    backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    # No merge crosses these cuts: digits and line breaks stay alone, and a space belongs to the word before it.
    backend.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(r"\d"), "isolated"),
        pre_tokenizers.Split("\n", "isolated"),
        pre_tokenizers.Split("▁", "merged_with_previous"),
    ])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(
        # Tags are added after the training, so their places are left free here.
        vocab_size=max(vocab_size - len(TAGS), 0), special_tokens=[*CONTROL_TOKENS, *_BYTES], show_progress=False,
        # Every digit is in the alphabet, even if no text has it.
        initial_alphabet=list("0123456789"))
    # Gemma's turns say `user` and `model`; both become single tokens because every text comes with them.
    backend.train_from_iterator((part for text in texts for part in ("user\nmodel\n", text)), trainer)
    tokenizer = Tokenizer(_bytes_are_ordinary(backend), {
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
        "chat_template": files("workings.models").joinpath("templates/gemma.jinja").read_text(encoding="utf-8"),
    })
    if tokenizer.vocab_size > vocab_size:
        raise RequestError(f"a vocabulary of {vocab_size} tokens is too small",
                           f"at least {tokenizer.vocab_size}: control tokens, tags, bytes and the texts' characters",
                           f"a vocabulary of {tokenizer.vocab_size + 60}")
    return tokenizer


def _bytes_are_ordinary(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The trainer only takes byte tokens as special ones; move them into the plain vocabulary and add the tags."""
    # As special tokens they would be matched in text and skipped in decoding.
    content = json.loads(backend.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in CONTROL_TOKENS]
    # A new tokenizer from changed JSON, because the library cannot make a token ordinary again.
    plain = tokenizers.Tokenizer.from_str(json.dumps(content))
    plain.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return plain
