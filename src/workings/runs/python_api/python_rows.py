"""Rows given in Python: they become files, which the run keeps with their digests."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workings.data.importing.formats import PAIR_FORMATS, VERDICT_FORMATS, whole_completion
from workings.data.importing.hints import by_its_keys, looks_like
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import Records, RecordSource, SourceRecord
from workings.errors import RequestError
from workings.record import atomic
from workings.record.redact import cleaned

Rows = str | Path | Iterable[Mapping[str, Any]]
"""A file; or rows: a list of dicts, a pandas frame, a `datasets.Dataset`."""
COMPLETIONS = "prompt-completion"
"""Format of rows with `prompt` and `completion`."""
FORMS = "rows with prompt, steps and answer; or messages, question and answer, prompt and completion, …"


def rows_of(data: Any, name: str) -> list[dict[str, Any]]:
    """Rows as dicts; a missing value of a data frame is None.

    Args:
        data: a list of dicts, a pandas frame, or a `datasets.Dataset`; none of their packages is imported.
        name: name of the argument, for messages.

    Raises:
        RequestError: no rows, or a row that is not a dict.
    """
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
        what = "no rows" if not rows else f"a row of type {next(type(r).__name__ for r in rows if not _is_row(r))}"
        raise RequestError(f"{name}: {what}", f"a file, or {FORMS}", f'{name}=[{{"prompt": "1+1?", "answer": "2"}}]')
    return [{str(key): None if _is_missing(value) else _plain(value) for key, value in row.items()} for row in rows]


def _is_row(row: object) -> bool:
    return isinstance(row, Mapping)


def _is_missing(value: Any) -> bool:
    """Whether a frame or a data set marks this cell as empty."""
    # Only NaN differs from itself; pandas also has its own marks.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def write_given_traces(data: Any, out: Path, *, split_completions: bool) -> str:
    """Writes rows as traces, or as preference pairs if they have two completions. Returns their format.

    A `completion` is kept as it is, unless ``split_completions`` or its reasoning is in another field.

    Text that looks like a secret or a home folder is removed, as everywhere in a record: the file is the training data.

    Raises:
        RequestError: rows of a form that `workings data import` does not know, or a row of another form.
    """
    # First, because digests, rows and training use the cleaned text.
    rows = cleaned(rows_of(data, "data"))
    form = looks_like(rows[0]) or by_its_keys(rows[0])
    if not form:
        raise RequestError(f"data: the first row has the keys {', '.join(rows[0])}", FORMS, "rename the keys")
    # In the form of the first row, steps of another form would be lost.
    for number, row in enumerate(rows, start=1):
        if (other := looks_like(row)) not in ("", form):
            raise RequestError(f"data: row 1 reads as {form}, and row {number} as {other}", "rows of one form",
                               'the same keys in every row; a row without reasoning has "steps": []')

    keep = form == COMPLETIONS and not split_completions and all(map(_is_one_text, rows))

    def records() -> Records:
        return (SourceRecord(number, row) for number, row in enumerate(rows, start=1))

    try:
        import_records(RecordSource("data", "row", records), out, ImportRequest(
            format=form, labels={}, completions="keep" if keep else "split"))
    except RequestError as wrong:
        # Other proposals of an import are options of `workings data import`, which was not called.
        raise RequestError(wrong.given.partition("; try ")[0], wrong.expected,
                           "correct that row, leave it out, or remove the key from all rows") from None
    return form


def _is_one_text(row: Mapping[str, Any]) -> bool:
    """Whether a row's completion is a single text."""
    try:
        whole_completion(row)
    except ValueError:
        return False
    return True


def algorithm_for(form: str) -> str:
    """The algorithm that learns from rows of this format; empty for the default."""
    return "dpo" if form in PAIR_FORMATS else "kto" if form in VERDICT_FORMATS else ""


def write_given_items(data: Any, out: Path) -> None:
    """Writes rows with `prompt` (or `question`) and `expected_answer` (or `answer`) as items; ids are numbers.

    Raises:
        RequestError: a row without one of them.
    """
    lines = []
    for number, row in enumerate(cleaned(rows_of(data, "items")), start=1):
        # With an `expected_answer`, `answer` may be anything, such as a worked solution.
        names = {"question": "prompt", "answer": "expected_answer"} if "expected_answer" not in row else {}
        item = {"id": f"item-{number:05d}"} | {names.get(key, key): value for key, value in row.items()
                                               if value is not None}
        if missing := {"prompt", "expected_answer"} - item.keys():
            raise RequestError(f"items: row {number} has the keys {', '.join(row)}",
                               "rows with prompt (or question) and expected_answer (or answer)",
                               f"add or rename {' and '.join(sorted(missing))}")
        lines.append(json.dumps(item, ensure_ascii=False))
    atomic.write_text(out, "".join(f"{line}\n" for line in lines))


@contextmanager
def items_file(items: Rows, name: str = "given") -> Iterator[Path]:
    """A file of items: the named one, or a temporary file of the given rows.

    Raises:
        RequestError: rows that are not items.
    """
    if isinstance(items, str | Path):
        yield Path(items)
        return
    with TemporaryDirectory(prefix="workings-") as folder:
        file = Path(folder, f"{name}.jsonl")
        write_given_items(items, file)
        yield file
