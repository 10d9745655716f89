"""A model that can be asked: an engine with a state, and what turns text into tokens and back."""

from dataclasses import dataclass

from workings.engines.base import Engine, State
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ModelSession:
    """Everything that is needed to put questions to a model."""

    engine: Engine
    """Open, on its devices."""
    state: State
    """The weights that answer; None as long as nothing is asked."""
    tokenizer: Tokenizer
    template: ChatTemplate
    """Writes the turns that the model was trained with."""
