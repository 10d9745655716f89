"""Base class of every section of a recipe: strict, frozen, with errors that name the next thing to type."""

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

    A key that has no effect because of another key's value is refused as well, by a validator that names both
    (`written_keys`): such a key would promise something that does not happen.
    """

    # Strict, so that a text is never mistaken for the number that it spells; frozen, because a recipe's digest is
    # recorded. Docstrings of fields become descriptions, which errors, the schema and the reference page print.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False,
                              use_attribute_docstrings=True)


def refused(given: str, expected: str, try_next: str) -> PydanticCustomError:
    """Error of a validator whose three parts appear in the `RequestError` of `load_recipe`."""
    # A ValueError would arrive as one text; this kind of error keeps its three parts apart.
    return PydanticCustomError(REFUSED, "{given}: expected {expected}; try {try_next}",
                               {"given": given, "expected": expected, "try_next": try_next})


def written_keys(section: Section, info: ValidationInfo, keys: Collection[str], *, name: str) -> str:
    """The keys that a person wrote, as ``section.key: value``; empty if none of them was written.

    For a validator that refuses keys without effect. Defaults are no mistake, and a recipe that is not `AS_WRITTEN`
    names all keys.

    Args:
        section: the section.
        info: context of the validation.
        keys: field names of the section.
        name: name of the section in a recipe.
    """
    if info.context != AS_WRITTEN:
        return ""
    # pydantic keeps which fields were given; defaults are not among them.
    written = section.model_dump(mode="json", include=section.model_fields_set & set(keys))
    return ", ".join(f"{name}.{key}: {json.dumps(value)}" for key, value in written.items())


def changed_keys(sections: Mapping[str, Section]) -> dict[str, Any]:
    """Dotted keys whose values are not the defaults, with these values.

    For an engine that does not support a section: it refuses changed values, not defaults. A key without a default,
    such as the name of an optimizer, is left out.

    Args:
        sections: name in a recipe -> section.
    """
    return {f"{name}.{key}": getattr(section, key) for name, section in sections.items()
            for key, field in type(section).model_fields.items()
            # A default may come of a factory, such as an empty dict, so it is made and not only looked up.
            if not field.is_required() and getattr(section, key) != field.get_default(call_default_factory=True)}
