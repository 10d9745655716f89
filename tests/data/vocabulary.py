"""Training a tokenizer on traces."""

from collections.abc import Iterable

from workings.data.traces import Trace
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer


def tokenizer_for(traces: Iterable[Trace], vocab_size: int) -> Tokenizer:
    """A tokenizer trained on prompts, steps and answers; the same for every rendering of the same traces.

    Raises:
        RequestError: when ``vocab_size`` is too small for what is always there.
    """
    return train_tokenizer((text for trace in traces for text in (trace.prompt, *trace.steps, trace.answer)),
                           vocab_size)
