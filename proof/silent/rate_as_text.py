"""YAML 1.1 reads 2e-5 as a text, and the trainer takes or drops it.

Reported: LlamaFactory#4014.
"""

from proof.silent._harness import Found, refused, right_if
from workings.config.load import load_recipe


def check() -> Found:
    """A bare 2e-5 is a number, a quoted one is refused with the key."""
    rate = load_recipe("smoke-tiny", ["training.learning_rate=2e-5"]).recipe.training.learning_rate
    quoted = refused(lambda: load_recipe("smoke-tiny", ["training.learning_rate='2e-5'"]), "training.learning_rate")
    return right_if(rate == 2e-5 and quoted.verdict == "refused", f"2e-5 is {rate}; quoted: {quoted.evidence[:90]}")
