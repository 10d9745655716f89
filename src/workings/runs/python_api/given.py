"""Writes rows and reward functions that a Python program gives to files, which the run keeps with their digests."""

import builtins
import dis
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FunctionType
from typing import Any, NoReturn

from workings.config.recipe_paths import with_changed_paths
from workings.data.importing.formats import PAIR_FORMATS, VERDICT_FORMATS, whole_completion
from workings.data.importing.hints import by_its_keys, looks_like
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import RecordSource, SourceRecord
from workings.errors import RequestError
from workings.record import atomic
from workings.record.redact import cleaned

Rows = str | Path | Iterable[Mapping[str, Any]]
"""A file; or rows: a list of dicts, a pandas frame, a `datasets.Dataset`."""
COMPLETIONS = "prompt-completion"
"""Format of rows with `prompt` and `completion`."""
FORMS = "rows with prompt, steps and answer; or messages, question and answer, prompt and completion, …"
Reward = str | Mapping[str, Any] | Callable[..., Any]
"""A shipped reward's name; a function; or an entry of the recipe's section `rewards`, whose `scorer` may be one."""
SIGNATURE = "def my_reward(prompts, completions, **columns):"
IN_A_FILE = '"FILE.py:FUNCTION", for a function in its own file'


def rows_of(data: Any, name: str) -> list[dict[str, Any]]:
    """The rows of the argument ``name`` as dicts: of a list of dicts, a pandas frame, or a `datasets.Dataset`."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a frame; iterating over it would give column names
        data = data.to_dict("records")
    elif hasattr(data, "to_list") and hasattr(data, "column_names"):  # a Dataset
        data = data.to_list()
    if isinstance(data, Mapping):  # a DatasetDict, as `load_dataset` without a split gives it; or one row alone
        raise RequestError(f"{name} is a {type(data).__name__} with {', '.join(map(str, data))}", f"a file, or {FORMS}",
                           f"{name}={name}[{next(iter(data), 'train')!r}] for one split of it")
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise RequestError(f"{name} is of type {type(data).__name__}", f"a file, or {FORMS}",
                           f'{name}=[{{"prompt": "1+1?", "answer": "2"}}]')
    rows = list(data)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        other = next((type(row).__name__ for row in rows if not isinstance(row, Mapping)), "")
        what = f"a row of type {other}" if other else "no rows"
        raise RequestError(f"{name}: {what}", f"a file, or {FORMS}", f'{name}=[{{"prompt": "1+1?", "answer": "2"}}]')
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy as Python's own; None for a cell that a frame or a data set marks as empty."""
    # Only NaN differs from itself; pandas also has its own marks.
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    return value.tolist() if hasattr(value, "tolist") else value


def write_given_traces(data: Any, out: Path, *, split_completions: bool) -> str:
    """Writes rows as traces, or as preference pairs if they have two completions. Returns their format.

    A `completion` is kept as it is, unless ``split_completions`` or its reasoning is in another field. Text that looks
    like a secret or a home folder is removed. Raises `RequestError`.
    """
    # First, because digests, rows and training use the cleaned text.
    rows = cleaned(rows_of(data, "data"))
    form = looks_like(rows[0]) or by_its_keys(rows[0])
    if not form:
        raise RequestError(f"data: the first row has the keys {', '.join(rows[0])}", FORMS, "rename the keys")
    # Read in the form of the first row, a row of another form would lose its steps.
    for number, row in enumerate(rows, start=1):
        other = looks_like(row)
        if other not in ("", form):
            raise RequestError(f"data: row 1 reads as {form}, and row {number} as {other}", "rows of one form",
                               'the same keys in every row; a row without reasoning has "steps": []')

    keep = form == COMPLETIONS and not split_completions and all(map(_is_one_text, rows))
    source = RecordSource("data", "row", lambda: starmap(SourceRecord, enumerate(rows, start=1)))
    try:
        import_records(source, out, ImportRequest(format=form, labels={}, completions="keep" if keep else "split"))
    except RequestError as wrong:
        # Its proposals after "; try " are options of `workings data import`, which was not called.
        raise RequestError(wrong.given.partition("; try ")[0], wrong.expected,
                           "correct that row, leave it out, or remove the key from all rows") from None
    return form


def _is_one_text(row: Mapping[str, Any]) -> bool:
    try:
        whole_completion(row)
    except ValueError:
        return False
    return True


def algorithm_for(form: str) -> str:
    """The algorithm that learns from rows of this format; empty for the default."""
    if form in PAIR_FORMATS:
        return "dpo"
    return "kto" if form in VERDICT_FORMATS else ""


def write_given_items(data: Any, out: Path) -> None:
    """Writes rows with `prompt` (or `question`) and `expected_answer` (or `answer`) as items. Raises `RequestError`."""
    lines = []
    for number, row in enumerate(cleaned(rows_of(data, "items")), start=1):
        # With an `expected_answer`, `answer` may be anything, such as a worked solution.
        renamed = {} if "expected_answer" in row else {"question": "prompt", "answer": "expected_answer"}
        item = {"id": f"item-{number:05d}"} | {renamed.get(key, key): value for key, value in row.items()
                                               if value is not None}
        if missing := {"prompt", "expected_answer"} - item.keys():
            raise RequestError(f"items: row {number} has the keys {', '.join(row)}",
                               "rows with prompt (or question) and expected_answer (or answer)",
                               f"add or rename {' and '.join(sorted(missing))}")
        lines.append(json.dumps(item, ensure_ascii=False))
    atomic.write_text(out, "".join(f"{line}\n" for line in lines))


@contextmanager
def items_file(items: Rows) -> Iterator[Path]:
    """A file of items: the named one, or a temporary file of the given rows. Raises `RequestError`."""
    if isinstance(items, str | Path):
        yield Path(items)
        return
    with TemporaryDirectory(prefix="workings-") as folder:
        file = Path(folder, "given.jsonl")
        write_given_items(items, file)
        yield file


def recipe_rewards(given: Reward | Sequence[Reward], config: Path, change: Callable[[str], str]
                   ) -> tuple[list[dict[str, Any]], list[str]]:
    """Rewards as the recipe's section `rewards` has them, and names of the files that were written into ``config``.

    A function of an imported module is named by that file. Functions of a notebook, or of the script that is running
    (importing it would train once more), are written. ``change`` returns the new path for a relative one.
    """
    several = [given] if isinstance(given, str | Mapping) or callable(given) else list(given)
    entries, written = list[dict[str, Any]](), list[str]()
    for reward in several:
        entry = dict(reward) if isinstance(reward, Mapping) else {"scorer": reward}
        scorer = entry.get("scorer")
        if not callable(scorer):
            entries.append(with_changed_paths({"rewards": [entry]}, change)["rewards"][0])
            continue
        function = _named_function(scorer)
        file = _module_file(function)
        if not file:
            file = f"{function.__name__}.py"
            atomic.write_text(config / file, _own_source(function))
            written.append(file)
        entries.append(entry | {"scorer": f"{file}:{function.__name__}"})
    return entries, written


def _named_function(scorer: Callable[..., Any]) -> FunctionType:
    """The function itself. Raises `RequestError` for a lambda, a class or any other object that can be called."""
    name = getattr(scorer, "__name__", type(scorer).__name__)
    if isinstance(scorer, FunctionType) and name != "<lambda>":
        return scorer
    problem = "a lambda has no name" if name == "<lambda>" else f"{name} is not a function"
    raise RequestError(f"rewards: {problem}", f"a function that is defined by its name, or {IN_A_FILE}",
                       f"{SIGNATURE} return [...]; rewards=[my_reward]")


def _module_file(function: FunctionType) -> str:
    """The file of the imported module that has this function by its name; empty for any other function."""
    module = sys.modules.get(function.__module__ or "")
    file = getattr(module, "__file__", None) or ""
    if function.__module__ == "__main__" or not file.endswith(".py"):
        return ""
    return str(Path(file).resolve()) if getattr(module, function.__name__, None) is function else ""


def _own_source(function: FunctionType) -> str:
    """The source of a function. Raises `RequestError` if it needs anything from outside the function."""
    name = function.__name__
    if function.__code__.co_freevars:
        _refuse_needs(name, function.__code__.co_freevars)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise RequestError(f"rewards: the source of {name} cannot be read",
                           f"a function of a file or of a notebook's cell, or {IN_A_FILE}",
                           f'rewards=["mine.py:{name}"]') from None
    namespace: dict[str, Any] = {"__name__": name}
    try:
        # As in the process that computes rewards: with nothing around it.
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), namespace)  # noqa: S102 - the caller's own function
    except NameError as error:
        _refuse_needs(name, [str(error.name)])
    needed = [used for used in dict.fromkeys(_global_names(function.__code__))
              if used not in namespace and not hasattr(builtins, used)]
    if needed:
        _refuse_needs(name, needed)
    if cleaned(source) != source:
        raise RequestError(f"rewards: the source of {name} holds a home folder or what looks like a token or password",
                           "a source without secrets, because the run keeps it", IN_A_FILE)
    return source


def _global_names(code: CodeType) -> Iterator[str]:
    """Names that a function, or one inside it, reads from outside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _refuse_needs(name: str, needed: Sequence[str]) -> NoReturn:
    raise RequestError(f"rewards: {name} uses {', '.join(needed)} from outside the function",
                       "a self-contained function: the run keeps its source and calls it in a process of "
                       "its own", f"import or define {', '.join(needed)} inside {name}; or {IN_A_FILE}")
