"""The base of every part of a recipe: strict, frozen, and with errors that say what to type next."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

AS_WRITTEN = "as written"
"""Validation context of a recipe as a person wrote it. A resolved recipe, which names every key, has none."""
REFUSED = "refused"
"""Type of the errors that `refused` makes."""


class Section(BaseModel):
    """A frozen set of keys. An unknown key is refused.

    A key that decides nothing beside another key's value is refused as well, by a validator that names both
    (`written_keys`): such a key would promise something that does not happen.
    """

    # Strict, so that a text is never taken for the number that it spells; frozen, because a recipe's digest is
    # recorded. Docstrings of fields become descriptions, which errors, the schema and the reference page print.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False,
                              use_attribute_docstrings=True)


def refused(given: str, expected: str, try_next: str) -> PydanticCustomError:
    """What a validator raises to have its own words in the `RequestError` of a recipe that is loaded."""
    # A ValueError would arrive as one text; this kind of error keeps its three parts apart.
    return PydanticCustomError(REFUSED, "{given}: expected {expected}; try {try_next}",
                               {"given": given, "expected": expected, "try_next": try_next})


def written_keys(section: Section, info: ValidationInfo, keys: Collection[str], *, name: str) -> str:
    """Those of the keys that a person wrote, as ``section.key: value``; empty where nobody wrote one.

    For a validator that refuses keys which decide nothing beside another key's value. A key that was left out promises
    nothing, and a recipe that is not `AS_WRITTEN` names all keys.

    Args:
        section: whose keys they are.
        info: of the validation.
        keys: field names of the section.
        name: of the section in a recipe.
    """
    if info.context != AS_WRITTEN:
        return ""
    # pydantic keeps which fields were given; defaults are not among them.
    written = section.model_dump(mode="json", include=section.model_fields_set & set(keys))
    return ", ".join(f"{name}.{key}: {json.dumps(value)}" for key, value in written.items())


def changed_keys(sections: Mapping[str, Section]) -> dict[str, Any]:
    """Dotted keys whose values are not the defaults, with these values.

    For an engine that does not honour a section: it refuses what was asked for, and nobody asked for a default. A key
    without a default, such as the name of an optimizer, is left out.

    Args:
        sections: name in a recipe -> section.
    """
    return {f"{name}.{key}": getattr(section, key) for name, section in sections.items()
            for key, field in type(section).model_fields.items()
            if not field.is_required() and getattr(section, key) != field.get_default(call_default_factory=True)}
