"""A teacher with another tokenizer judges the student's ids as other words.

Reported: trl#4562.
"""

from types import SimpleNamespace

from proof.silent._harness import Found, gemma, refused
from tests.engines.tiny import tiny_shape
from tests.models.chat_templates import llama
from workings.ways.parts.teacher import refuse_other_vocabulary


def check() -> Found:
    """A teacher in whose vocabulary a token has another id is refused, with the tokens."""
    teacher = SimpleNamespace(algorithm=SimpleNamespace(teacher="teacher"), tokenizer=gemma().tokenizer,
                              shape=tiny_shape(vocab=999))
    student = llama().tokenizer
    return refused(lambda: refuse_other_vocabulary(teacher, student, tiny_shape()), "another id", "vocabulary")
