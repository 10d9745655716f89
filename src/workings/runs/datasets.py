"""From the names in a recipe to traces and items: a file, or a set that is made on the spot."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from workings.config.load import LoadedRecipe
from workings.data.generators import addition
from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.named_sets import shipped_sets
from workings.data.open import open_traces, shipped_items
from workings.data.traces import Trace, traces_bytes
from workings.errors import RequestError
from workings.record.digest import bytes_digest, file_digest
from workings.scoring.items import Item, item_from_json, read_items
from workings.scoring.lines import read_lines

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
    prompts: list[Item] = field(default_factory=list)
    """Questions that completions are drawn of, where the recipe learns from rewards; ``traces`` are then those that
    hold them, or empty."""
    digests: dict[str, str]
    """SHA-256 of each file's bytes, or of the bytes that a made set would have as a file."""
    is_full: bool = True
    """Whether the traces are all of those that the digest names."""


def find_data(loaded: LoadedRecipe) -> RunData:
    """Read or make what `data.traces`, `evaluation.traces` and `evaluation.items` name."""
    recipe = loaded.recipe
    digests: dict[str, str] = {}
    names = (recipe.data.traces, recipe.evaluation.traces, recipe.evaluation.items)
    drawn = recipe.learns_from_rewards and holds_items(loaded, names[0])
    # Made in one call, in which no pair of numbers is both trained and asked.
    made = addition.make(ADDITION_TRACES, ADDITION_ITEMS, recipe.seed) if ADDITION in names else ([], [])
    traces = [] if drawn else _traces(loaded, names[0], made[0], "traces", digests)
    held_out = [] if names[1] == "none" else _traces(
        loaded, names[1], addition.held_out_traces(made[1], recipe.seed), "evaluation_traces", digests)
    prompts: list[Item] = []
    if drawn:
        prompts = _items(loaded, names[0], [], "traces", digests)
    elif recipe.learns_from_rewards:
        prompts = [question_of(trace) for trace in traces]
    return RunData(traces=traces, held_out=held_out, items=_items(loaded, names[2], made[1], "items", digests),
                   prompts=prompts, digests=digests)


def holds_items(loaded: LoadedRecipe, name: str) -> bool:
    """Whether what a recipe calls its traces are items: questions with expected answers and without steps."""
    path = loaded.path(name)
    if path.is_file():
        # By the first line: a file holds one or the other.
        first = next((record for _, record in read_lines(path)), {})
        return isinstance(first, dict) and ("expected_answer" in first or "question" in first)
    return name in shipped_sets() and shipped_sets()[name].holds == "items"


def question_of(trace: Trace) -> Item:
    """A trace's question with its answer as the expected one; its steps are left out.

    Raises:
        RequestError: the trace has earlier turns, which an item cannot hold.
    """
    if trace.history:
        raise RequestError(f"trace {trace.id} with earlier turns, to learn from rewards", "a single question",
                           "traces without `history`")
    labels = {name: getattr(trace, name) for name in ("section", "category", "difficulty") if getattr(trace, name)}
    try:
        return item_from_json({**trace.metadata, **labels, "id": trace.id, "prompt": trace.prompt,
                               "expected_answer": trace.answer})
    except ValueError as error:
        raise RequestError(f"trace {trace.id}: {error}", "a trace whose answer can be compared") from None


def _traces(loaded: LoadedRecipe, name: str, made: list[Trace], label: str, digests: dict[str, str]) -> Sequence[Trace]:
    if name == ADDITION:
        digests[label] = bytes_digest(traces_bytes(made))
        return made
    opened = open_traces(name, loaded.base)
    digests[label] = opened.sha256
    return opened.traces


def _items(loaded: LoadedRecipe, name: str, made: list[ItemRecord], label: str,
           digests: dict[str, str]) -> list[Item]:
    if name == "none":
        return []
    path = loaded.path(name)
    if name != ADDITION and path.is_file():
        digests[label] = file_digest(path)
        return read_items(path)
    records = made if name == ADDITION else shipped_items(name, f", none, {ADDITION}")
    digests[label] = bytes_digest(items_bytes(records))
    return [item_from_json(vars(record)) for record in records]
