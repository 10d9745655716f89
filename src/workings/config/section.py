"""Base class of every section of a recipe: strict, frozen, with errors that name the next thing to type."""

import json
from collections.abc import Collection, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

AS_WRITTEN = "as written"
"""Validation context of a recipe as a user wrote it. A resolved recipe, which has every key, has none."""
REFUSED = "refused"
"""Error type of `refused`."""


class Section(BaseModel):
    """A frozen set of keys. Refused are unknown keys and, by validators with `written_keys`, keys without effect."""

    # Strict, so that a text is never converted to a number; frozen, because a recipe's digest is recorded.
    # Docstrings of fields become descriptions, which errors, the schema and the reference page print.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False,
                              use_attribute_docstrings=True)


def choice_name(section: type[Section]) -> str:
    """The value of the key `name` that selects a section among others: ``lora`` for `LoraConfig`."""
    return str(get_args(section.model_fields["name"].annotation)[0])


def modules_of(package: str) -> list[ModuleType]:
    """The modules directly in a package, sorted by name; without its packages.

    This package finds sections of higher packages by name, because those packages import it.
    """
    names = sorted(module.name for module in iter_modules(import_module(package).__path__) if not module.ispkg)
    return [import_module(f"{package}.{name}") for name in names]


def refused(given: str, expected: str, try_next: str) -> PydanticCustomError:
    """Error of a validator whose three parts appear in the `RequestError` of `load_recipe`."""
    return PydanticCustomError(REFUSED, "{given}: expected {expected}; try {try_next}",
                               {"given": given, "expected": expected, "try_next": try_next})


def written_keys(section: Section, info: ValidationInfo, keys: Collection[str], *, name: str) -> str:
    """The keys of a section, among ``keys``, that a user wrote, as ``section.key: value``; empty if none was written.

    For a validator that refuses keys without effect. Defaults are allowed, and a recipe that is not `AS_WRITTEN` has
    all keys. ``name`` is that of the section in a recipe.
    """
    if info.context != AS_WRITTEN:
        return ""
    written = section.model_dump(mode="json", include=section.model_fields_set & set(keys))
    return ", ".join(f"{name}.{key}: {json.dumps(value)}" for key, value in written.items())


def changed_keys(sections: Mapping[str, Section]) -> dict[str, Any]:
    """Dotted keys whose values are not the defaults, with these values; ``sections`` by their names in a recipe.

    For an engine that does not support a section: it refuses changed values, not defaults. A key without a default,
    such as the name of an optimizer, is left out.
    """
    return {f"{name}.{key}": getattr(section, key) for name, section in sections.items()
            for key, field in type(section).model_fields.items()
            if not field.is_required() and getattr(section, key) != field.get_default(call_default_factory=True)}


def own_code(name: str) -> tuple[str, str]:
    """Path and attribute of ``FILE.py:NAME``, a user's function or class; empty texts for any other name."""
    # From the right, because a Windows path may have a colon.
    file, _, attribute = name.rpartition(":")
    return (file, attribute) if ".py:" in name else ("", "")


def written_out(value: Any) -> Any:
    """A section that may be given by its name alone: `sampler: vllm` is short for `sampler: {name: vllm}`."""
    return {"name": value} if isinstance(value, str) else value
