"""Evaluation units, the folders that hold an evaluation: finds, reads and writes them.

    runs/first/eval/items/       or the folder of `eval --out`
        eval_config.json         what was asked, and how
        predictions.jsonl        a line per completion, with its score
        eval_summary.json        the scorecard
        SEAL.json, SHA256SUMS

While a unit is written its folder is `runs/first.eval-items.partial` or `OUT.partial`; an evaluation that was killed is
continued there.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.answer_counts import AnswerCounter, AnswerCounts
from workings.evaluation.predictions import MAX_PREDICTIONS_BYTES, item_result, read_predictions
from workings.evaluation.scorecard import ItemResult
from workings.record import atomic, layout
from workings.record.canonical import loads, read_json_object, record_line
from workings.record.digest import file_digest, json_digest
from workings.record.jsonl import Appender, cut_torn_line
from workings.record.lock import DirectoryLock
from workings.record.seal import parse_sums, root_digest, seal_unit, unit_kind
from workings.record.storage import open_plain, read_plain

DEFAULT_NAME = "items"
"""Name of the unit that `train` makes; it is meant if a run has several."""


@dataclass(frozen=True)
class EvaluationRecord:
    """A sealed evaluation unit."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """``eval_config.json``."""
        return read_json_object(self.path / layout.EVALUATION_CONFIG)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``eval_summary.json``."""
        return read_json_object(self.path / layout.EVALUATION_SUMMARY)

    @property
    def warning(self) -> str:
        """Why the completions say little about a model; empty if they do not."""
        _, counter = self.reading
        return counter.warning(self.name)

    @property
    def answer_counts(self) -> AnswerCounts:
        """Counts of the answers in the completions."""
        _, counter = self.reading
        return counter.counts()

    @cached_property
    def reading(self) -> tuple[list[ItemResult], AnswerCounter]:
        """Results and counts, from one pass over the predictions, which may take seconds."""
        counter, results = AnswerCounter(), []
        aggregate = str(self.config["aggregate"])
        for samples in read_predictions(self.path / layout.PREDICTIONS):
            results.append(item_result(samples, aggregate))
            for sample in samples:
                counter.add(sample)
        return results, counter

    @cached_property
    def run(self) -> Path | None:
        """The run directory that contains the unit, or None."""
        folder = self.path.resolve().parent
        is_in_run = folder.name == "eval" and (folder.parent / layout.MANIFEST).is_file()
        return folder.parent if is_in_run else None

    @property
    def name(self) -> str:
        """`RUN` or, if it is not the run's default unit, `RUN/eval/NAME`; outside of a run the folder's name."""
        if self.run is None:
            # A link's own name, because a pack links samples under other names.
            return self.path.name if self.path.name not in ("", "..") else self.path.resolve().name
        unit = self.path.resolve().name
        return self.run.name if unit == DEFAULT_NAME else f"{self.run.name}/eval/{unit}"

    @property
    def items_digest(self) -> str:
        """Digest of the items that were asked."""
        return str(self.config["items"]["digest"])

    @property
    def root(self) -> str:
        """Root digest of the unit."""
        return root_digest(self.path)

    def results(self) -> list[ItemResult]:
        """Results of all items. Raises `RecordError` if a file was changed after sealing, or an item comes twice."""
        sums = parse_sums(read_plain(self.path / layout.SUMS))
        for name in (layout.EVALUATION_CONFIG, layout.EVALUATION_SUMMARY, layout.PREDICTIONS):
            open_plain(self.path / name, MAX_PREDICTIONS_BYTES).close()
            if sums.get(name) != file_digest(self.path / name):
                raise RecordError(f"{self.path / name} is not the file that was sealed")
        results, _ = self.reading
        if len({result.id for result in results}) != len(results):
            raise RecordError(f"{self.path / layout.PREDICTIONS} holds an item twice")
        return results

    def results_of(self, ids: Sequence[str]) -> list[ItemResult]:
        """`results` in the order of these ids. Raises `RequestError` if the evaluation has other items."""
        by_id = {result.id: result for result in self.results()}
        if by_id.keys() != {*ids}:
            raise RequestError(f"{self.path} has other items than what it is compared with",
                               "evaluations of the same items")
        return [by_id[name] for name in ids]


def unit_paths(path: Path) -> list[Path]:
    """Folders of the sealed evaluation units in a run, sorted by name; of a unit, only itself."""
    if (path / layout.EVALUATION_SUMMARY).is_file():
        return [path]
    return [summary.parent for summary in sorted(path.glob(f"eval/*/{layout.EVALUATION_SUMMARY}"))
            if not summary.parent.name.endswith(layout.PARTIAL_SUFFIX)]


def find_units(path: Path) -> list[EvaluationRecord]:
    """The units of `unit_paths`. Raises `RequestError` if there is none."""
    units = [EvaluationRecord(unit) for unit in unit_paths(path)]
    if not path.exists():
        near = Path("runs") / path  # the default folder of runs was left out
        raise RequestError(f"{path} does not exist", "a run directory, or the directory that `eval --out` wrote",
                           f"did you mean {near}?" if near.is_dir() else "workings runs")
    if not units:
        raise RequestError(f"{path} has no evaluation",
                           "a run directory with an evaluation, or the directory that `eval --out` wrote",
                           f"workings eval {quote(str(path))} --items ITEMS.jsonl "
                           f"--out {quote(f'{path}/eval/{DEFAULT_NAME}')}")
    return units


def find_results(path: Path) -> list[EvaluationRecord]:
    """The units of `find_units`. Raises `RequestError` if one has samples to learn from."""
    units = find_units(path)
    for unit in units:
        if unit_kind(unit.path) == layout.SAMPLED:
            raise RequestError(f"{unit.path} has samples to learn from",
                               "an evaluation: samples may be of questions that the model was trained on",
                               "workings eval RUN --items ITEMS.jsonl --out DIR")
    return units


def find_unit(path: Path) -> EvaluationRecord:
    """The only unit of a path, or the one named `items`. Raises `RequestError` if there is neither."""
    return _only(path, find_results(path))


def find_pair(a: Path, b: Path) -> tuple[EvaluationRecord, EvaluationRecord]:
    """One unit of each path for a comparison, on the same items if possible. Raises as `find_unit`."""
    units_a, units_b = find_results(a), find_results(b)
    digests = {unit.items_digest for unit in units_a} & {unit.items_digest for unit in units_b}
    # Without common items all units remain, and the comparison reports the difference.
    return (_only(a, [unit for unit in units_a if unit.items_digest in digests] or units_a),
            _only(b, [unit for unit in units_b if unit.items_digest in digests] or units_b))


def read_scorecard(path: Path) -> dict[str, Any]:
    """The recorded scorecard of a run or unit: `overall`, `per_section`, `per_category`, `per_difficulty`."""
    return dict(find_unit(path).summary["scorecard"])


def _only(path: Path, units: Sequence[EvaluationRecord]) -> EvaluationRecord:
    named = [unit for unit in units if len(units) == 1 or unit.path.name == DEFAULT_NAME]
    if named:
        return named[0]
    raise RequestError(f"{path} has {len(units)} evaluations", "one of them",
                       " or ".join(str(unit.path) for unit in units))


def refuse_existing(out: Path) -> None:
    """Raise `RequestError` if a unit cannot be made at this path."""
    layout.refuse_unit_name(out)
    if out.exists():
        raise RequestError(f"--out {out} already exists", "a new directory; evaluations are never overwritten",
                           f"--out {out}-2")


class EvaluationWriter:
    """Writes a unit. Use as a context manager; what was written is kept for the next attempt."""

    def __init__(self, out: Path, config: dict[str, Any]) -> None:
        """Start a unit, or continue an interrupted one.

        Raises `RequestError` if ``out`` exists, or the interrupted unit there has another ``config``.
        """
        refuse_existing(out)
        self.out, self.partial, self._config = out, layout.partial_unit_path(out), config
        self.predictions = self.partial / layout.PREDICTIONS
        self.partial.mkdir(parents=True, exist_ok=True)
        self._lock = DirectoryLock(self.partial)
        try:
            self._check_config()
            cut_torn_line(self.predictions)  # of a process that was killed
            self._appender = Appender(self.predictions)
        except BaseException:
            self._lock.release()  # a second try in this process would wait for the first
            raise

    def __enter__(self) -> "EvaluationWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._appender.close()
        self._lock.release()

    def finished_chunks(self, chunks: Sequence[int], samples: int = 1) -> int:
        """Number of complete chunks in the file, given their numbers of items; removes the rest of the file."""
        ends = _item_ends(self.predictions, samples)
        done = kept_items = 0
        # With chunks of 4, 4 and 2 items and 7 items in the file, 1 chunk is complete; its 4 items are kept.
        for size in chunks:
            if kept_items + size > len(ends):
                break
            done, kept_items = done + 1, kept_items + size
        os.truncate(self.predictions, ends[kept_items - 1] if kept_items else 0)
        return done

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Add the lines of a chunk, and wait until they are on the disk."""
        self._appender.append_bytes(b"".join(record_line(line, layout.PREDICTIONS) for line in lines))
        self._appender.sync()

    def seal(self, summary: dict[str, Any], kind: str = "eval") -> None:
        """Write the summary, seal the unit as this kind, and move it to its place."""
        atomic.write_json(self.partial / layout.EVALUATION_SUMMARY, summary)
        (self.partial / layout.SEAL).unlink(missing_ok=True)  # killed between sealing and renaming
        made_from = self._config["made_from"]
        seal_unit(self.partial, kind, "complete", made_from if isinstance(made_from, str) else None)
        # Not earlier, because an empty folder in a sealed run would be covered by no checksum.
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.partial.rename(self.out)
        atomic.sync_directory(self.out.parent)

    def _check_config(self) -> None:
        path, config = self.partial / layout.EVALUATION_CONFIG, self._config
        if not path.exists():
            atomic.write_json(path, config)
            return
        before = read_json_object(path)
        if json_digest(before) != json_digest(config):
            different = sorted(key for key in {*before, *config} if before.get(key) != config.get(key))
            raise RequestError(f"--out {self.out} has an interrupted evaluation of another request: "
                               f"{', '.join(different)}", "the same request, to continue it, or another --out",
                               f"--out {self.out}-2, or remove {self.partial}")


def _item_ends(path: Path, samples: int) -> list[int]:
    """Byte offset after the last line of each complete item."""
    ends: list[int] = []
    name, lines, offset = "", 0, 0
    with path.open("rb") as file:
        for line in file:
            offset += len(line)
            record = loads(line)
            if not isinstance(record, dict) or "id" not in record:
                raise RecordError(f'{path}: a line has no "id", so this command did not write it; delete {path.parent} '
                                  "and run the command again")
            if record["id"] == name:
                ends[-1], lines = offset, lines + 1
            else:
                name, lines = record["id"], 1
                ends.append(offset)
    # Only the last item can be incomplete.
    return ends[:-1] if lines < samples else ends
