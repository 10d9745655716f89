"""Kinds of problems that can be made, and data sets that have a name.

Only the recipe of a named set is shipped; the bytes are generated on demand and compared with the digest. So a name
means the same data everywhere, and a changed generator cannot change it silently.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from workings.data.generators import addition, everyday, library
from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.traces import Trace, traces_bytes
from workings.errors import RecordError, RequestError
from workings.record.digest import bytes_digest

KINDS: dict[str, Callable[[int, int, int], tuple[list[Trace], list[ItemRecord]]]] = {
    "addition": addition.make, "unit_conversion": everyday.make_units}
"""Kinds of problems that are made without another library."""


@dataclass(frozen=True, kw_only=True)
class SetRecipe:
    """The recipe of a named data set."""

    summary: str
    holds: Literal["traces", "items"]
    """The half of the generator's output that the name means."""
    sha256: str
    """Digest of the set as a file of JSON lines."""
    kind: str = "unit_conversion"
    traces: int = 550
    items: int = 100
    seed: int = 2026


_SETS = {
    "dev-reasoning": SetRecipe(summary="550 traces of unit conversions, for trying out recipes", holds="traces",
                               sha256="b1f1fdefba8fbbe48e17c2d8187842581e1781fe4141ff66ae76943876773107"),
    "eval": SetRecipe(summary="100 items of the same kind; no problem of dev-reasoning", holds="items",
                      sha256="e7ba22796a308d4a3b3e079aaa6db96b961b4576ae707ea85126766a457fae07")}


def shipped_sets() -> dict[str, SetRecipe]:
    """The recipes of all named sets, by name."""
    return dict(_SETS)


def make_set(name: str) -> tuple[list[Trace], list[ItemRecord]]:
    """Make a named set and compare it with its digest; one of the returned lists is empty.

    Raises:
        RequestError: there is no set of this name.
        RecordError: the generated data differ from the digest.
    """
    if name not in _SETS:
        raise RequestError(f"there is no data set {name!r}", f"one of {', '.join(_SETS)}", "workings data list")
    recipe = _SETS[name]
    # Both halves are made: which problems are traces depends on how many items are held out.
    traces, items = make_kind(recipe.kind, recipe.traces, recipe.items, recipe.seed)
    made: tuple[list[Trace], list[ItemRecord]] = (traces, []) if recipe.holds == "traces" else ([], items)
    # A name means one set of bytes: results on it stay comparable over versions.
    digest = bytes_digest(traces_bytes(made[0]) or items_bytes(made[1]))
    if digest != recipe.sha256:
        raise RecordError(f"data set {name}: made {digest}, and its name means {recipe.sha256}: this version of "
                          "the generators makes other data")
    return made


def make_kind(kind: str, n_traces: int, n_items: int, seed: int) -> tuple[list[Trace], list[ItemRecord]]:
    """Traces and items of one of `KINDS`, or of a task of the library `reasoning-gym`.

    Raises:
        RequestError: an unknown kind, or too many problems.
    """
    return KINDS.get(kind, partial(library.make, kind))(n_traces, n_items, seed)
