"""Names of model families and chat templates that a recipe may use.

They are listed in `families.json`, because this package does not import `workings.models`. Families of other packages
are known by the names of their entry points; nothing is imported.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from workings.plugins import plugin_names

GROUP = "workings.families"
"""Entry points of other packages: family name -> a `workings.models.family.Family`."""
# Read at import, because annotations of recipes use it.
_LISTED = json.loads(files("workings.config").joinpath("families.json").read_text(encoding="utf-8"))
FAMILIES: tuple[str, ...] = tuple(_LISTED["families"])
"""The families of this package."""
TEMPLATES: Mapping[str, tuple[str, ...]] = {name: tuple(tokens) for name, tokens in _LISTED["templates"].items()}
"""Chat template -> the tokens that it needs."""


def known_families() -> tuple[str, ...]:
    """The families of this package and those of installed packages."""
    return (*FAMILIES, *(name for name in plugin_names(GROUP) if name not in FAMILIES))


@dataclass(frozen=True)
class FamilyName:
    """Annotation of a recipe's key whose value names a model family.

    A `Literal` cannot list other packages' families. Their entry points, which take tens of milliseconds, are read
    only for an unknown name.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(known_families())}


def _check(name: object) -> object:
    # In this order, so that our names need no entry points.
    if name not in FAMILIES and name not in (known := known_families()):
        # pydantic's words for a `Literal`, which this annotation replaces.
        *others, last = (f"'{family}'" for family in known)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return name
