"""A model that can be asked: an engine with weights, and the conversion between text and tokens."""

from dataclasses import dataclass

from workings.engines.base import Engine, State
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.models.weights import parameter_count

CHUNK_OPERATIONS = 2 * 10**12
"""Floating-point operations between two records of an evaluation's answers on a CPU."""


@dataclass(frozen=True, kw_only=True)
class ModelSession:
    """Everything that is needed to ask a model."""

    engine: Engine
    state: State
    """The model's weights; None before the first question."""
    tokenizer: Tokenizer
    template: ChatTemplate
    """The chat template that the model was trained with."""
    tokens_at_a_time: int = 0
    """New tokens after which an evaluation records its answers and reports progress; 0: after each batch."""


def tokens_at_a_time(shape: ModelShape, platform: str) -> int:
    """`ModelSession.tokens_at_a_time` of a model: about half a minute's work on a CPU."""
    if platform != "cpu":
        return 0
    # The machine's speed does not count, so that every machine has the same batches and the same answers.
    return max(1, CHUNK_OPERATIONS // (2 * parameter_count(shape)))
