"""The template writes no token after the answer: the model is never taught to stop.

Reported: trl PR 3091.
"""

from proof.silent._harness import Found, Trace, refused, rows_of
from tests.models.chat_templates import QWEN, qwen


def check() -> Found:
    """Such a template is refused."""
    endless = qwen(QWEN.replace("message.content + '<|im_end|>'", "message.content"))
    trace = Trace(id="x", prompt="Hi", steps=(), answer="Ahoy")
    return refused(lambda: rows_of(endless, trace), "stop")
