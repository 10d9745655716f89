"""A model for questions: an engine with a state, and the conversion between text and tokens."""

from dataclasses import dataclass

from workings.engines.base import Engine, State
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ModelSession:
    """Everything that is needed to ask a model."""

    engine: Engine
    """The engine, opened on its devices."""
    state: State
    """The model's weights; None before the first question."""
    tokenizer: Tokenizer
    template: ChatTemplate
    """Template of the turns that the model was trained with."""
