"""The chosen and the rejected completion of a pair are the same: its gradient is 0, or noise.

Reported: ms-swift#4535.
"""

from proof.silent._harness import Found, gemma, refused
from workings.config.data import DataConfig
from workings.data.pair_rows import build_pair_rows
from workings.data.preferences import PreferencePair


def check() -> Found:
    """Such a pair is refused by its id, also where only white space differs."""
    pair = PreferencePair(id="same", prompt="1+1?", chosen="2", rejected="2")
    config = DataConfig(traces="x", max_length=99, reasoning="answer_only")
    return refused(lambda: build_pair_rows([pair], gemma().tokenizer, gemma(), config), "same")
