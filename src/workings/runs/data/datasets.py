"""From the names in a recipe to traces and items: a file, or a set that is made on the spot."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.answers.marked_answers import final_answer
from workings.config.load import LoadedRecipe
from workings.data.generators import addition
from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.importing.hints import looks_like
from workings.data.lazy_sequence import TraceFile
from workings.data.named_sets import shipped_sets
from workings.data.open import open_traces, shipped_items
from workings.data.preferences import PreferencePair, read_pairs
from workings.data.traces import Trace, traces_bytes
from workings.errors import RequestError
from workings.hints import no_file
from workings.record.digest import bytes_digest, file_digest
from workings.record.manifest import DRAWN_FROM
from workings.runs.object_store import local_name
from workings.scoring.items import Item, item_from_json, read_items
from workings.scoring.lines import read_lines

ADDITION = "addition"
"""Name, in a recipe, of the set made by `workings.data.generators.addition` from the recipe's seed."""
# `workings.evidence.verify.checks.announced_evaluation`, a room further down, repeats both numbers.
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
    pairs: list[PreferencePair] = field(default_factory=list)
    """Preference pairs, where the recipe learns from them; ``traces`` are then empty."""
    digests: dict[str, str]
    """SHA-256 of each file's bytes, or of the bytes that a made set would have as a file."""
    is_full: bool = True
    """Whether the traces are all of those that the digest names."""

    @property
    def drawn_from(self) -> dict[str, int]:
        """How many traces or pairs are samples of which model, by its digest (see `workings.samples.candidates`)."""
        # A large file whose rows are kept from an earlier run is not read for this.
        traces = [] if isinstance(self.traces, TraceFile) and not self.traces.may_hold_samples else self.traces
        sources = (each.metadata.get(DRAWN_FROM) for some in (traces, self.pairs) for each in some)
        return dict(Counter(source for source in sources if isinstance(source, str)))


def find_data(loaded: LoadedRecipe) -> RunData:
    """Read or make what `data.traces`, `evaluation.traces` and `evaluation.items` name."""
    recipe = loaded.recipe
    digests: dict[str, str] = {}
    names = [local_name(name) for name in (recipe.data.traces, recipe.evaluation.traces, recipe.evaluation.items)]
    drawn = recipe.uses_rollouts and holds_items(names[0], loaded.base)
    # Made in one call, in which no pair of numbers is both trained and asked.
    made = addition.make(ADDITION_TRACES, ADDITION_ITEMS, recipe.seed) if ADDITION in names else ([], [])
    pairs = _pairs(loaded, names[0], digests) if recipe.learns_from_pairs else []
    traces = [] if drawn or pairs else _traces(loaded, names[0], made[0], "traces", digests)
    held_out = [] if names[1] == "none" else _traces(
        loaded, names[1], addition.held_out_traces(made[1], recipe.seed), "evaluation_traces", digests)
    prompts: list[Item] = []
    if drawn:
        prompts = _items(loaded, names[0], [], "traces", digests)
    elif recipe.uses_rollouts:
        prompts = [question_of(trace) for trace in traces]
    return RunData(traces=traces, held_out=held_out, items=_items(loaded, names[2], made[1], "items", digests),
                   prompts=prompts, pairs=pairs, digests=digests)


def read_prompts(name: str, base: Path = Path()) -> list[Item]:
    """Questions to draw completions of: items, or traces with their answers as the expected ones.

    Args:
        name: a file (relative to ``base``), an object of a store, or a shipped set.
        base: the folder that paths begin from.

    Raises:
        RequestError: there is no such file or set, or a line of it is no question with an answer.
    """
    name = local_name(name)
    path = base / Path(name).expanduser()
    if not path.is_file() and name not in shipped_sets():
        raise RequestError(f"prompts: {name}; {no_file(path)}", "a file of items or of traces, or a shipped set",
                           "workings data list")
    if not path.is_file() and not holds_items(name, base):
        return [question_of(trace) for trace in open_traces(name, base).traces]
    return read_questions(path if path.is_file() else Path(name))


def read_questions(path: Path) -> list[Item]:
    """Items of a file or of a shipped set; of a file of traces, their questions with their answers.

    Raises:
        RequestError: there is no such file or set, or a line of it is no question with an answer.
    """
    keys = _first_keys(path) if path.is_file() else set()
    if {"id", "prompt", "answer"} <= keys and "expected_answer" not in keys:
        return [question_of(trace) for trace in open_traces(str(path)).traces]
    return read_items(path)


def holds_items(name: str, base: Path) -> bool:
    """Whether a file (relative to ``base``) or a shipped set holds questions with expected answers and no steps."""
    path = base / Path(name).expanduser()
    if path.is_file():
        return bool({"expected_answer", "question"} & _first_keys(path))
    return name in shipped_sets() and shipped_sets()[name].holds == "items"


def _first_keys(path: Path) -> set[str]:
    """Keys of a file's first line, by which it is known what the file holds."""
    return set(_first_record(path))


def _first_record(path: Path) -> dict[str, Any]:
    """A file's first line; empty where that is no JSON object."""
    first = next((record for _, record in read_lines(path)), {})
    return first if isinstance(first, dict) else {}


def question_of(trace: Trace) -> Item:
    """A trace's question and the turns before it, with its answer as the expected one; its steps are left out.

    Raises:
        RequestError: its answer cannot be compared.
    """
    history = {"history": [{"role": role, "content": text} for role, text in trace.history]} if trace.history else {}
    labels = {name: getattr(trace, name) for name in ("section", "category", "difficulty") if getattr(trace, name)}
    try:
        return item_from_json({**trace.metadata, **labels, **history, "id": trace.id, "prompt": trace.prompt,
                               "expected_answer": final_answer(trace.answer)})
    except ValueError as error:
        raise RequestError(f"trace {trace.id}: {error}", "a trace whose answer can be compared") from None


def _pairs(loaded: LoadedRecipe, name: str, digests: dict[str, str]) -> list[PreferencePair]:
    """The preference pairs of `data.traces`; a file of anything else is refused by its first line."""
    path = loaded.path(name)
    if path.is_file() and not {"chosen", "rejected"} & _first_keys(path):
        raise RequestError(f"data.traces: {path}, which holds no preference pairs, with algorithm.name: "
                           f"{loaded.recipe.algorithm.name}", "a file of pairs: id, prompt, chosen, rejected",
                           f"workings data import --format preferences {path} --out pairs.jsonl")
    pairs = read_pairs(path)
    digests["traces"] = file_digest(path)
    return pairs


def _traces(loaded: LoadedRecipe, name: str, made: list[Trace], label: str, digests: dict[str, str]) -> Sequence[Trace]:
    if name == ADDITION:
        digests[label] = bytes_digest(traces_bytes(made))
        return made
    path = loaded.path(name)
    first = _first_record(path) if path.is_file() else {}
    if {"chosen", "rejected"} <= set(first):
        raise RequestError(f"{path}, a file of preference pairs, in place of traces", "a file of traces",
                           "algorithm.name=dpo, if the recipe is to learn from these pairs")
    if first and not {"prompt", "answer"} <= set(first) and (form := looks_like(first, "traces")):
        raise RequestError(f"{path}, records of format {form} in place of traces",
                           "a file of traces: id, prompt, steps, answer",
                           f"workings data import --format {form} {path} --out traces.jsonl")
    opened = open_traces(name, loaded.base, f", {ADDITION}")
    digests[label] = opened.sha256
    return opened.traces


def _items(loaded: LoadedRecipe, name: str, made: list[ItemRecord], label: str,
           digests: dict[str, str]) -> list[Item]:
    if name == "none":
        return []
    path = loaded.path(name)
    if name != ADDITION and path.is_file():
        digests[label] = file_digest(path)
        return read_questions(path)
    records = made if name == ADDITION else shipped_items(name, path, f", none, {ADDITION}")
    digests[label] = bytes_digest(items_bytes(records))
    return [item_from_json(vars(record)) for record in records]
