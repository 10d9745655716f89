"""Data sets that have a name: kinds of problems to generate, and the shipped sets.

A shipped set is not kept as a file. It is generated when it is needed and compared with the digest that belongs to its
name, so a name means the same data everywhere and in every version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from workings.data.generators import addition, everyday
from workings.data.generators.base import Generated
from workings.data.importing.completion import split_any
from workings.data.traces import Trace, items_bytes, read_traces, traces_bytes
from workings.errors import RecordError, RequestError
from workings.hints import no_file, pip_install
from workings.record.digest import bytes_digest, file_digest

KINDS: dict[str, Callable[[int, int, int], Generated]] = {
    "addition": addition.make, "unit_conversion": everyday.make_units}
"""Kinds of problems that need no other library -> their generators: (traces, items, seed) -> problems."""
_ATTEMPTS_PER_PROBLEM = 4
"""Small tasks of `reasoning-gym` repeat their problems. After this number of attempts a task counts as exhausted."""


def make_kind(kind: str, n_traces: int, n_items: int, seed: int) -> Generated:
    """Generate problems of one of `KINDS`, or of a task of the library `reasoning-gym`.

    Equal seeds give equal data. Raises `RequestError` for an unknown kind, and for more problems than there are.
    """
    if kind in KINDS:
        return KINDS[kind](n_traces, n_items, seed)
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise RequestError(f"data make knows {kind} only with the library `reasoning-gym`",
                           "addition, unit_conversion, or one of the tasks of that library",
                           pip_install("tasks")) from None
    if kind not in DATASETS:
        raise RequestError(f"data make does not know {kind}",
                           f"one of addition, unit_conversion, {', '.join(sorted(DATASETS))}", "workings data list")
    count = n_traces + n_items
    if count < 1:
        raise RequestError(f"{n_traces} traces and {n_items} items cannot be made", "at least one of either")
    attempts = _ATTEMPTS_PER_PROBLEM * count
    entries: dict[str, dict[str, Any]] = {}
    for entry in islice(reasoning_gym.create_dataset(kind, size=attempts, seed=seed), attempts):
        if entry["answer"] is not None:
            entries.setdefault(entry["question"], entry)
        if len(entries) == count:
            break
    if len(entries) < count:
        raise RequestError(f"{kind} gave {len(entries)} different problems with an answer, but {count} were requested",
                           "at most that number", "a smaller --n or --items")
    source = f"reasoning-gym:{kind} version {reasoning_gym.__version__} seed {seed}"
    traces = []
    for number, (question, entry) in enumerate(entries.items()):
        # Empty if the task has no worked solution.
        steps, _ = split_any(entry["metadata"].get("answer_cot", ""))
        traces.append(Trace(id=f"{kind}-{number:06d}", prompt=question, steps=steps, answer=str(entry["answer"]),
                            section="core", category=kind, source=source, licence="Apache-2.0"))
    return Generated(traces=traces[n_items:], held_out=traces[:n_items])


@dataclass(frozen=True, kw_only=True)
class SetRecipe:
    """A shipped set: the traces, or the items, of the same 650 generated unit conversions."""

    summary: str
    holds: Literal["traces", "items"]
    count: int
    sha256: str
    """Digest of the set as a file of JSON lines."""


_SHIPPED_TRACES, _SHIPPED_ITEMS, _SHIPPED_SEED = 550, 100, 2026
SHIPPED_SETS = {
    "dev-reasoning": SetRecipe(summary="550 traces of unit conversions, for trying out recipes", holds="traces",
                               count=_SHIPPED_TRACES,
                               sha256="b1f1fdefba8fbbe48e17c2d8187842581e1781fe4141ff66ae76943876773107"),
    "eval": SetRecipe(summary="100 items of the same kind; no problem of dev-reasoning", holds="items",
                      count=_SHIPPED_ITEMS,
                      sha256="e7ba22796a308d4a3b3e079aaa6db96b961b4576ae707ea85126766a457fae07")}


def make_set(name: str) -> list[Trace]:
    """A shipped set's traces, or those of its items. Raises `RecordError` if they do not have the set's digest."""
    recipe = SHIPPED_SETS[name]
    generated = everyday.make_units(_SHIPPED_TRACES, _SHIPPED_ITEMS, _SHIPPED_SEED)
    if recipe.holds == "traces":
        made, data = generated.traces, traces_bytes(generated.traces)
    else:
        made, data = generated.held_out, items_bytes(generated.held_out)
    digest = bytes_digest(data)
    if digest != recipe.sha256:
        raise RecordError(f"data set {name}: made {digest}, and its name means {recipe.sha256}: this version of "
                          "the generators makes other data")
    return made


def open_traces(name: str, base: Path = Path(), more: str = "") -> tuple[list[Trace], str]:
    """The traces of a file (relative to ``base``) or else of a shipped set, and their SHA-256 as a file.

    ``more``: further accepted values, for the message. Raises `RequestError` if there is neither, or the set holds
    items.
    """
    path = base / Path(name).expanduser()
    if path.is_file():
        return read_traces(path), file_digest(path)
    if name not in SHIPPED_SETS:
        raise RequestError(f"traces: {no_file(path)}", f"a file of traces{more}, or a data set: {_names('traces')}",
                           "workings data list")
    if SHIPPED_SETS[name].holds != "traces":
        raise RequestError(f"traces: {name} is a set of items", f"one of {_names('traces')}", "workings data list")
    return make_set(name), SHIPPED_SETS[name].sha256


def shipped_items(name: str, path: Path, more: str = "") -> list[Trace]:
    """The traces whose questions are the items of a shipped set.

    Raises `RequestError` if no shipped set of this name holds items. Its message says that the file ``path`` is
    missing, and which values are accepted, ``more`` among them.
    """
    if name not in SHIPPED_SETS or SHIPPED_SETS[name].holds != "items":
        raise RequestError(f"items: {no_file(path)}", f"a file of items{more}, or one of {_names('items')}",
                           "workings data list")
    return make_set(name)


def _names(holds: str) -> str:
    return ", ".join(name for name, recipe in SHIPPED_SETS.items() if recipe.holds == holds)
