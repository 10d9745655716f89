"""The chat template leaves the system turn out, without a word.

Reported: Rapid-MLX#1765 (Harmony), lm-evaluation-harness PR 3076.
"""

from proof.silent._harness import Found, Trace, refused, rows_of
from tests.models.chat_templates import qwen
from workings.models.turns import Turn

DROPS = """{% for m in messages if m.role != 'system' %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}
{{- '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def check() -> Found:
    """A row with a system turn is refused with the turn's number."""
    trace = Trace(id="x", prompt="Hi", steps=(), answer="Ahoy", history=(Turn("system", "Answer like a pirate."),))
    return refused(lambda: rows_of(qwen(DROPS), trace), "leaves out", "turn 1 (system)")
