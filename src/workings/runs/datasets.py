"""From the names in a recipe to traces and items: a file, or a set that is made on the spot."""

from collections.abc import Sequence
from dataclasses import dataclass

from workings.config.load import LoadedRecipe
from workings.data.generators import addition
from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.open import open_traces, shipped_items
from workings.data.traces import Trace, traces_bytes
from workings.record.digest import bytes_digest, file_digest
from workings.scoring.items import Item, item_from_json, read_items

ADDITION = "addition"
"""Name, in a recipe, of the set made by `workings.data.generators.addition` from the recipe's seed."""
ADDITION_TRACES = 500
ADDITION_ITEMS = 600


@dataclass(frozen=True, kw_only=True)
class RunData:
    """The data of a run, before it becomes rows."""

    traces: Sequence[Trace]
    """For training; those of a file are read when one is asked for."""
    held_out: Sequence[Trace]
    """Traces for the evaluation loss; empty when the recipe has none."""
    items: list[Item]
    """Questions; empty when the recipe has none."""
    digests: dict[str, str]
    """SHA-256 of each file's bytes, or of the bytes that a made set would have as a file."""
    is_full: bool = True
    """Whether the traces are all of those that the digest names."""


def find_data(loaded: LoadedRecipe) -> RunData:
    """Read or make what `data.traces`, `evaluation.traces` and `evaluation.items` name."""
    recipe = loaded.recipe
    digests: dict[str, str] = {}
    names = (recipe.data.traces, recipe.evaluation.traces, recipe.evaluation.items)
    # Made in one call, in which no pair of numbers is both trained and asked.
    made = addition.make(ADDITION_TRACES, ADDITION_ITEMS, recipe.seed) if ADDITION in names else ([], [])
    traces = _traces(loaded, names[0], made[0], "traces", digests)
    held_out = [] if names[1] == "none" else _traces(
        loaded, names[1], addition.held_out_traces(made[1], recipe.seed), "evaluation_traces", digests)
    return RunData(traces=traces, held_out=held_out, items=_items(loaded, names[2], made[1], digests), digests=digests)


def _traces(loaded: LoadedRecipe, name: str, made: list[Trace], label: str, digests: dict[str, str]) -> Sequence[Trace]:
    if name == ADDITION:
        digests[label] = bytes_digest(traces_bytes(made))
        return made
    opened = open_traces(name, loaded.base)
    digests[label] = opened.sha256
    return opened.traces


def _items(loaded: LoadedRecipe, name: str, made: list[ItemRecord], digests: dict[str, str]) -> list[Item]:
    if name == "none":
        return []
    path = loaded.path(name)
    if name != ADDITION and path.is_file():
        digests["items"] = file_digest(path)
        return read_items(path)
    records = made if name == ADDITION else shipped_items(name, f", none, {ADDITION}")
    digests["items"] = bytes_digest(items_bytes(records))
    return [item_from_json(vars(record)) for record in records]
