"""A mask that takes every end-of-text token for the end of a document splits a conversation into its turns.

Reported: torchtitan#3130.
"""

import numpy as np

from proof.silent._harness import TEMPLATES, Found, Trace, batch, opened, right_if, rows_of
from tests.engines.tiny import tiny_shape
from workings.models.turns import Turn


def check(engine: str) -> Found:
    """GPT-2's one mark ends every turn; the last answer still depends on the first question."""
    template = TEMPLATES["gpt2"][0]()
    rows = [rows_of(template, Trace(id="x", prompt="And 2+2?", steps=(), answer="4", history=(
        Turn("user", first), Turn("assistant", "2")))).rows[0] for first in ("What is 1+1?", "What is 1=1?")]
    model = opened(engine, shape=tiny_shape("llama", vocab=template.tokenizer.vocab_size))
    state = model.init(0)
    here, there = (model.log_probs(state, batch([row])).sum() for row in rows)
    one_segment = np.unique(batch([rows[0]]).segment_ids).tolist() == [1]
    return right_if(one_segment and abs(here - there) > 1e-6,
                    f"one segment; another first question moves the answer by {abs(here - there):.1e} nats")
