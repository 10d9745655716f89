"""The template writes earlier turns otherwise once the conversation continues: what is learned is never shown.

Reported: ms-swift#4939 (Qwen 3 drops earlier thoughts).
"""

from proof.silent._harness import Found, Trace, refused, rows_of
from tests.models.chat_templates import QWEN3, qwen
from workings.models.turns import Turn


def check() -> Found:
    """To learn all turns with such a template is refused, with the turn's number."""
    trace = Trace(id="x", prompt="2+2?", steps=(), answer="4", history=(Turn("user", "1+1?"), Turn("assistant", "2")))
    return refused(lambda: rows_of(qwen(QWEN3), trace, learn="all"), "turn 1", "in a longer conversation")
