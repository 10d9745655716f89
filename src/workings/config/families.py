"""Names of model families and chat templates that a recipe may use.

They are listed in `families.json`, because this package does not import `workings.models`. Families of other packages
are known by the names of their entry points; nothing is imported.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated

from pydantic import BeforeValidator, Field

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


def _known_family(name: object) -> object:
    # First, because reading the entry points of other packages takes tens of milliseconds.
    if name in FAMILIES:
        return name
    known = known_families()
    if name not in known:
        # pydantic's words for a `Literal`, which cannot list other packages' families.
        *others, last = (f"'{family}'" for family in known)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return name


KNOWN_FAMILY = BeforeValidator(_known_family)
FamilyName = Annotated[str, KNOWN_FAMILY, Field(
    json_schema_extra=lambda schema: schema.update(enum=list(known_families())))]
"""Type of a recipe's key whose value names a model family."""
