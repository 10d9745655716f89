"""Recipe section `data`: which traces, rendered how, in rows of which length."""

from typing import Literal

from pydantic import Field

from workings.config.section import Section


class DataConfig(Section):
    """Traces and the way they become rows of tokens with a loss mask."""

    traces: str
    """Path of the traces (JSON lines), relative to the recipe's file."""
    template: Literal["gemma", "tokenizer", "plain"] = "gemma"
    """Chat turns around prompt and answer: Gemma's, the tokenizer's own chat template, or none."""
    reasoning: Literal["tags", "think", "hashes", "answer_only"] = "tags"
    """How steps and answer are written: `<reasoning>…</reasoning><answer>…</answer>`, `<think>…</think>`, `#### answer`, or the answer alone."""
    max_length: int = Field(ge=8)
    """Longest row, in tokens."""
    over_length: Literal["error", "drop"] = "error"
    """What happens to a trace whose row is longer than `max_length`: refuse to start, or leave it out and list it."""
    buckets: tuple[int, ...] = Field(default=(), strict=False)
    """Row lengths, in tokens, to which batches are padded; empty: every batch is padded to `max_length`."""
    packing: Literal["none", "first_fit"] = "none"
    """Whether several rows share one sequence of `max_length` tokens (attention stays within a row)."""
