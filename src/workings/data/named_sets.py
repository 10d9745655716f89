"""Kinds of problems that can be made, and data sets that have a name.

Only the recipe of a named set is shipped; the bytes are generated on demand and compared with the digest. So a name
means the same data everywhere, and a changed generator cannot change it silently.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

from workings.data.generators import addition, everyday
from workings.data.generators.base import ItemRecord, as_item, items_bytes
from workings.data.importing.completion import split_any
from workings.data.traces import Trace, traces_bytes
from workings.errors import RecordError, RequestError
from workings.hints import pip_install
from workings.record.digest import bytes_digest

_DRAWN = 4
"""Attempts per problem before a task counts as exhausted: small tasks repeat themselves."""


def make_task(task: str, n_traces: int, n_items: int, seed: int) -> tuple[list[Trace], list[ItemRecord]]:
    """Traces and items of a task; no question is in both.

    Raises:
        RequestError: the library is not installed, has no such task, or the task has fewer problems.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise RequestError(f"data make knows {task} only with the library `reasoning-gym`",
                           "addition, unit_conversion, or one of the tasks of that library",
                           pip_install("tasks")) from None
    if task not in DATASETS:
        raise RequestError(f"data make does not know {task}",
                           f"one of addition, unit_conversion, {', '.join(sorted(DATASETS))}", "workings data list")
    count = n_traces + n_items
    if count < 1:
        raise RequestError(f"{n_traces} traces and {n_items} items cannot be made", "at least one of either")
    found: dict[str, dict[str, Any]] = {}
    for entry in islice(reasoning_gym.create_dataset(task, size=_DRAWN * count, seed=seed), _DRAWN * count):
        if entry["answer"] is not None and len(found) < count:
            found.setdefault(entry["question"], entry)
    if len(found) < count:
        raise RequestError(f"{task} gave {len(found)} different problems with an answer, but {count} were requested",
                           "at most that number", "a smaller --n or --items")
    source = f"reasoning-gym:{task} version {reasoning_gym.__version__} seed {seed}"
    made = [Trace(id=f"{task}-{number:06d}", prompt=question, answer=str(entry["answer"]), section="core",
                  steps=split_any(entry["metadata"].get("answer_cot", ""))[0], category=task, source=source,
                  licence="Apache-2.0") for number, (question, entry) in enumerate(found.items())]
    return made[n_items:], list(map(as_item, made[:n_items]))


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
    return KINDS.get(kind, partial(make_task, kind))(n_traces, n_items, seed)
