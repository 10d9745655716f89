"""Gemma 1. The defaults of `ModelShape` are its switches."""

from workings.models.family import Family

LICENCE = "Gemma Terms of Use (ai.google.dev/gemma/terms)"

FAMILY = Family(name="gemma", model_type="gemma", architecture="GemmaForCausalLM", ties_by_default=True,
                template="gemma", licence=LICENCE)
