"""Model families by name: those of this package, and those of other packages' entry points."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from workings.config.families import FAMILIES, GROUP, known_families
from workings.errors import RequestError
from workings.models.families import gemma4, qwen3_5, standard
from workings.models.family import Family
from workings.models.shape import ModelShape
from workings.models.unverified import unverified_family
from workings.plugins import find_plugin, refuse_our_names

registered: dict[str, Family] = {}
"""By name; those of other packages once they were asked for."""


def register(family: Family) -> Family:
    """Add a family in this process. Raises `RequestError` if another one has its name or ``model_type``."""
    _register_ours()
    return _add(family)


def find_family(name: str) -> Family:
    """The family of this name. Raises `RequestError` if there is none, or two packages have it."""
    _register_ours()
    return registered[name] if name in registered else _add(_from_plugin(name))


def family_of(shape: ModelShape) -> Family:
    """The family that a shape belongs to; for an unverified model one that is made from the shape itself."""
    return find_family(shape.family) if shape.verified else unverified_family(shape)


def families() -> tuple[Family, ...]:
    """The families of this package."""
    _register_ours()
    return tuple(registered[name] for name in FAMILIES)


def find_model_type(config: Mapping[str, Any]) -> Family:
    """The family whose ``model_type`` a ``config.json`` names. Raises `RequestError` if there is none."""
    wanted = config.get("model_type")
    _register_ours()
    for family in chain(tuple(registered.values()), map(find_family, known_families())):
        if wanted in (family.model_type, *family.other_model_types):
            return family
    raise RequestError(f"no family has model_type {wanted!r}",
                       f"one of {', '.join(family.model_type for family in registered.values())}",
                       "for training by transformers' own class, unverified: model.verified=false engine=torch")


def _register_ours() -> None:
    """Register the families of this package, once. Raises `RequestError` if an entry point has one of their names."""
    if FAMILIES[-1] in registered:
        return
    refuse_our_names(GROUP, FAMILIES, kind="model family")
    ours = {family.name: family for family in (*standard.FAMILIES, gemma4.FAMILY, qwen3_5.FAMILY)}
    for name in FAMILIES:
        _add(ours[name])


def _add(family: Family) -> Family:
    for key in ("name", "model_type"):
        value = getattr(family, key)
        for other in registered.values():
            if other is not family and getattr(other, key) == value:
                raise RequestError(f"model families {other.name} and {family.name} both have {key} {value!r}",
                                   f"a {key} that no other family has")
    registered[family.name] = family
    return family


def _from_plugin(name: str) -> Family:
    """A family from another package."""
    point = find_plugin(GROUP, name, given=f"model family {name!r}")
    if point is None:
        raise RequestError(f"there is no model family {name!r}", f"one of {', '.join(known_families())}",
                           "install the package that brings it")
    family = point.load()
    if not isinstance(family, Family) or family.name != name:
        raise RequestError(f"{point.value} is not the model family {name!r}",
                           f"a `workings.models.family.Family` whose name is {name!r}")
    return family
