"""The mask begins some tokens early: the model learns the turn's header, and later writes a stray role.

Reported: NeMo-Automodel#3352, trl#5988.
"""

from proof.silent._harness import TEMPLATES, Found, Trace, right_if, rows_of, texts


def check() -> Found:
    """Of five templates exactly the answer and its stop token are learned."""
    found = {}
    for name, (make, _, stop, _) in TEMPLATES.items():
        template = make()
        _, said = texts(template, rows_of(template, Trace(id="x", prompt="What is 1+1?", steps=(), answer="2")).rows[0])
        found[name] = said == f"2{stop}"
    return right_if(all(found.values()), f"learned is the answer and its stop token with {', '.join(found)}")
