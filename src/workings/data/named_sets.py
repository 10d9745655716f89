"""Data sets by name: kinds of problems that can be made, shipped sets, and files of traces.

Only the recipe of a shipped set is kept; the bytes are generated on demand and compared with the digest. So a name
means the same data everywhere, and a changed generator cannot change it silently.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from workings.data.generators import addition, everyday
from workings.data.importing.completion import split_any
from workings.data.traces import Trace, items_bytes, read_traces, traces_bytes
from workings.errors import RecordError, RequestError
from workings.hints import no_file, pip_install
from workings.record.digest import bytes_digest, file_digest

KINDS: dict[str, Callable[[int, int, int], tuple[list[Trace], list[Trace]]]] = {
    "addition": addition.make, "unit_conversion": everyday.make_units}
"""Kinds of problems that are made without another library."""
_DRAWN = 4
"""Attempts per problem before a task of `reasoning-gym` counts as exhausted: small tasks repeat themselves."""


def make_kind(kind: str, n_traces: int, n_items: int, seed: int) -> tuple[list[Trace], list[Trace]]:
    """Traces of one of `KINDS`, or of a task of the library `reasoning-gym`, and others to ask; no problem is in both.

    Equal seeds give equal data. Raises `RequestError` for an unknown kind, and for too many problems.
    """
    return KINDS.get(kind, partial(_make_task, kind))(n_traces, n_items, seed)


def _make_task(task: str, n_traces: int, n_items: int, seed: int) -> tuple[list[Trace], list[Trace]]:
    """`make_kind` of a task of `reasoning-gym`.

    Most tasks give no worked solution; their traces have no steps. Some have answers that only the library itself can
    judge, such as a board or a plan: a reward of your own can call its `score_answer`.
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
    return made[n_items:], made[:n_items]


@dataclass(frozen=True, kw_only=True)
class SetRecipe:
    """A shipped set: one half of 650 unit conversions."""

    summary: str
    holds: Literal["traces", "items"]
    """The half that the name means."""
    sha256: str
    """Digest of the set as a file of JSON lines."""
    traces = 550
    items = 100


SHIPPED_SETS = {
    "dev-reasoning": SetRecipe(summary="550 traces of unit conversions, for trying out recipes", holds="traces",
                               sha256="b1f1fdefba8fbbe48e17c2d8187842581e1781fe4141ff66ae76943876773107"),
    "eval": SetRecipe(summary="100 items of the same kind; no problem of dev-reasoning", holds="items",
                      sha256="e7ba22796a308d4a3b3e079aaa6db96b961b4576ae707ea85126766a457fae07")}


def make_set(name: str) -> list[Trace]:
    """The traces of a shipped set, or those whose questions are its items.

    Raises `RecordError` if the generated data differ from the digest.
    """
    recipe = SHIPPED_SETS[name]
    # Both halves are made: which problems are traces depends on how many items are held out.
    traces, asked = everyday.make_units(recipe.traces, recipe.items, 2026)
    # A name means one set of bytes: results on it stay comparable over versions.
    digest = bytes_digest(traces_bytes(traces) if recipe.holds == "traces" else items_bytes(asked))
    if digest != recipe.sha256:
        raise RecordError(f"data set {name}: made {digest}, and its name means {recipe.sha256}: this version of "
                          "the generators makes other data")
    return traces if recipe.holds == "traces" else asked


def open_traces(name: str, base: Path = Path(), more: str = "") -> tuple[list[Trace], str]:
    """The traces of a file (relative to ``base``) or of a shipped set, and the SHA-256 of the file that they are.

    A file takes precedence over a shipped name; ``more``: further accepted values, for the message. Raises
    `RequestError` without either, or for a set of items.
    """
    path = base / Path(name).expanduser()
    if path.is_file():
        return read_traces(path), file_digest(path)
    if name not in SHIPPED_SETS:
        raise RequestError(f"traces: {no_file(path)}", f"a file of traces{more}, or a data set: {_names('traces')}",
                           "workings data list")
    if SHIPPED_SETS[name].holds != "traces":
        raise RequestError(f"traces: {name} is a set of items", f"one of {_names('traces')}", "workings data list")
    # The digest is of the bytes that a file of these traces would have, so both are known as the same data.
    return make_set(name), SHIPPED_SETS[name].sha256


def shipped_items(name: str, path: Path, more: str = "") -> list[Trace]:
    """The traces whose questions are the items of a shipped set.

    Raises `RequestError` where no shipped set of that name holds items: ``path`` is missing, and ``more`` values are
    accepted.
    """
    if name not in SHIPPED_SETS or SHIPPED_SETS[name].holds != "items":
        raise RequestError(f"items: {no_file(path)}", f"a file of items{more}, or one of {_names('items')}",
                           "workings data list")
    return make_set(name)


def _names(holds: str) -> str:
    return ", ".join(name for name, recipe in SHIPPED_SETS.items() if recipe.holds == holds)
