"""Writes docs/reference/recipes.md from the recipe's classes: ``python -m tools.recipe_reference [--check]``.

Every key's text is the docstring under its field, so that the page, the error messages and the JSON schema say the
same. ``--check`` writes nothing and exits with 1 if the committed page is not what would be written.
"""

import json
import sys
import typing
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tools.field_text import meaning, type_text
from tools.generated import deliver
from tools.key_effects import EFFECTS, WITNESSES
from workings.config.explain import choice_of
from workings.config.families import FAMILIES, KNOWN_FAMILY
from workings.config.recipe import Recipe, section_at
from workings.config.rewards import FILE_REWARD
from workings.models.registry import families

PAGE = Path("docs/reference/recipes.md")

HEAD = """# Recipe reference

A recipe is one YAML file that asks for a run. Unknown keys are refused with the nearest known one, and so is a key
that decides nothing next to the others, as `training.final_share` with a constant schedule. Any key can be set on the
command line: `training.steps=100`.

The last column says what another value changes. A test makes each recipe twice and compares (`tools/key_effects.py` has
the values), so no key is read and forgotten.

The shipped recipes are read with `workings recipes list` and `workings recipes show NAME`, copied with
`workings recipes copy NAME`. `workings recipes schema` prints a JSON schema for editors; with the YAML language server,
write it to a file and name that file in the recipe's first line: `# yaml-language-server: $schema=recipe.schema.json`.
"""


def render() -> str:
    """The whole page."""
    return "\n".join([HEAD, _table("Recipe", Recipe, ""), *_sections(()), _families()])


def _sections(place: tuple[str, ...]) -> list[str]:
    """A heading and a table for every section class that may be below ``place``, depth first."""
    parts = []
    for name in dict.fromkeys(name for section in section_at(place) for name in section.model_fields):
        inner = (*place, name)
        models = section_at(inner)
        # Entries of a list cannot be set one by one on the command line, so their keys are without its name.
        prefix = "" if any(name in section.model_fields and typing.get_origin(section.model_fields[name].annotation)
                           is tuple for section in section_at(place)) else ".".join(inner) + "."
        for model in models:
            variant = f" with `{(choice_of(model) or [FILE_REWARD])[0]}`" if len(models) > 1 else ""
            parts.append(_table(f"`{'.'.join(inner)}`{variant}", model, prefix))
        if models:
            parts += _sections(inner)
    return parts


def _table(heading: str, model: type[BaseModel], prefix: str) -> str:
    # The first line of a class docstring is a sentence about the section.
    about = (model.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")
    lines = [f"## {heading}", "", about, "", "| key | type | default | meaning | another value changes |",
             "|---|---|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{prefix}{name}` | {_type(field)} | {_default(field)} | {meaning(field)} | "
                     f"{_effect(prefix, name)} |")
    return "\n".join([*lines, ""])


def _effect(prefix: str, name: str) -> str:
    """What another value changes, as `tests/config/test_key_effects.py` sees it; sections have only their keys."""
    effect = EFFECTS.get(prefix + name) or EFFECTS.get(f"rewards.{name}")
    if effect is None:
        return "see its keys"
    return f"see `{effect.other[0]}`" if effect.witness == "named" else WITNESSES[effect.witness]


def _type(field: FieldInfo) -> str:
    if KNOWN_FAMILY in field.metadata:
        return f"{', '.join(f'`{name}`' for name in FAMILIES)}, or one that another package brings"
    return type_text(field.annotation)


def _families() -> str:
    """A table of the model families of this package."""
    lines = ["## Model families", "",
             "How to bring another one: [write your own](../write-your-own.md#a-model-family). `engine: tunix` runs "
             "the Gemmas as they were published.", "",
             "| family | class in transformers | `data.template` of its chat models | engines |", "|---|---|---|---|"]
    for family in families():
        engines = ", ".join(f"`{engine}`" for engine in ("jax", "torch") if engine not in family.refusals)
        lines.append(f"| `{family.name}` | `{family.architecture}` | `{family.template}` | {engines} |")
    return "\n".join([*lines, ""])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
