"""Data sets that have a name: each is a generator's recipe and the digest of what it gives.

Nothing is shipped but the recipe; the bytes are made when they are asked for and compared with the digest, so a name
means the same data everywhere, and a changed generator cannot change it in silence.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from workings.data.generators import addition, mixed
from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.traces import Trace, traces_bytes
from workings.errors import RecordError, RequestError
from workings.record.digest import bytes_digest


@dataclass(frozen=True, kw_only=True)
class SetRecipe:
    """The recipe of a named data set."""

    name: str
    summary: str
    holds: Literal["traces", "items"]
    """The half of the generator's output that the name stands for."""
    kinds: tuple[str, ...]
    traces: int
    items: int
    seed: int
    sha256: str
    """Digest of the set as a file of JSON lines."""


@dataclass(frozen=True, kw_only=True)
class NamedSet:
    """A named data set, made and compared with its digest. One of the two lists is empty."""

    recipe: SetRecipe
    traces: list[Trace]
    items: list[ItemRecord]


def shipped_sets() -> dict[str, SetRecipe]:
    """The recipes of all named sets, by name."""
    records = json.loads(files("workings.data").joinpath("sets.json").read_text(encoding="utf-8"))
    return {record["name"]: SetRecipe(**{**record, "kinds": tuple(record["kinds"])}) for record in records}


def make_set(name: str) -> NamedSet:
    """Make a named set.

    Raises:
        RequestError: when there is no set of this name.
        RecordError: when what was made is not what the digest names.
    """
    recipes = shipped_sets()
    if name not in recipes:
        raise RequestError(f"data set {name!r}", f"one of {', '.join(recipes)}", "workings data list")
    recipe = recipes[name]
    # Both halves are made: with `addition`, which problems are traces depends on how many items are held out.
    traces, items = make_kinds(recipe.kinds, recipe.traces, recipe.items, recipe.seed)
    content = traces_bytes(traces) if recipe.holds == "traces" else items_bytes(items)
    # A name stands for one set of bytes: results on it stay comparable over versions.
    if bytes_digest(content) != recipe.sha256:
        raise RecordError(f"data set {name}: made {bytes_digest(content)}, and its name stands for {recipe.sha256}: "
                          "this version of the generators makes other data")
    return NamedSet(recipe=recipe, traces=traces if recipe.holds == "traces" else [],
                    items=items if recipe.holds == "items" else [])


def make_kinds(kinds: Sequence[str], n_train: int, n_items: int, seed: int) -> tuple[list[Trace], list[ItemRecord]]:
    """Traces and items of `addition` alone, or of any of the other kinds together.

    Raises:
        RequestError: for an unknown kind, or more problems than there are.
    """
    unknown = [kind for kind in kinds if kind not in ("addition", *mixed.KINDS)]
    if unknown:
        raise RequestError(f"kinds: {', '.join(unknown)}", f"some of addition, {', '.join(mixed.KINDS)}",
                           "workings data list")
    if "addition" not in kinds:
        # Without `addition`, any number of kinds can be mixed: they share one rule of what is held out.
        return mixed.make(kinds, n_train, n_items, seed)
    if len(kinds) > 1:
        raise RequestError(f"kinds: {', '.join(kinds)}", "addition alone: it is split by pairs of numbers, the other "
                           "kinds by template", f"workings data make {' '.join(k for k in kinds if k != 'addition')}")
    return addition.make(n_train, n_items, seed)


def kind_version(kinds: Sequence[str]) -> int:
    """Version of the generator that makes these kinds."""
    return addition.VERSION if "addition" in kinds else mixed.VERSION
