"""Reopens a sealed run for a replay: its engine, the rows it was trained on, its first weights, its checkpoints."""

from dataclasses import replace
from pathlib import Path

from workings.data.rows import RowSet
from workings.errors import RecordError, RequestError
from workings.hardware.device import row_devices
from workings.inputs.datasets import RunData, find_data
from workings.inputs.resolve import recorded_bases
from workings.record import jsonl
from workings.record.layout import PROMPTS, ROWS
from workings.record.values import Absent, absent
from workings.rollouts.prompts import PromptSet, read_recorded_prompts
from workings.runs.open_model import AS_RECORDED, SealedRun
from workings.ways.base import way_of
from workings.ways.parts.replay_source import ReopenedRun
from workings.ways.parts.teacher import Teacher, find_teacher


def reopen_run(path: Path, *, data: Path | None = None, weights: Path | None = None, fsdp: int = 0) -> ReopenedRun:
    """Opens a sealed run as it was trained: its engine, its rows, its first weights, its checkpoints.

    Arguments are those of `workings.runs.replay.ReplayRequest`. Raises `RequestError` and `RecordError`.
    """
    sealed = SealedRun.open(path)
    run, recipe = sealed.run, sealed.loaded.recipe
    # Files are checked by their digests before a device is opened.
    if PROMPTS in recipe.algorithm.records:
        # The record holds prompts with their tokens: no data file is needed.
        read = RunData(examples=[], held_out=[], items=[], digests={})
        prompts = read_recorded_prompts(jsonl.read(run.path / PROMPTS)[0], run.manifest.seed)
        if prompts.digest != run.manifest.data_digests.get("prompts"):
            raise RecordError(f"{run.path}: {PROMPTS} differs from its digest in the manifest")
        trained_on: RowSet | PromptSet = prompts
    else:
        read = _recorded_data(sealed, data)
        trained_on = _recorded_rows(sealed, read)
    first = sealed.recorded_weights(weights)
    engine = sealed.open_engine(AS_RECORDED, first.directory, fsdp)
    rows_of_micro_batch = run.manifest.global_batch // recipe.batch.accumulation
    # Micro batches keep the recorded number of rows. Where it does not divide among the devices here,
    # one device takes them all.
    if not fsdp and rows_of_micro_batch % row_devices(engine.describe().mesh):
        engine = sealed.open_engine(AS_RECORDED, first.directory, fsdp=1)
    return ReopenedRun(loaded=sealed.loaded, data=read, weights=first, tokenizer=sealed.tokenizer,
                       template=sealed.template, shape=sealed.shape, run=run, engine=engine,
                       trained_on=trained_on, teacher=_recorded_teacher(sealed))


def _recorded_data(sealed: SealedRun, given: Path | None) -> RunData:
    """The data that the run was trained on, checked by their digest; evaluation data are not needed."""
    run, recipe = sealed.run, sealed.loaded.recipe
    # Absolute, because a relative name would be relative to the recipe.
    traces = recipe.data.traces if given is None else str(given.absolute())
    # No step depends on held-out traces and items, which may be gone.
    traces_only = recipe.model_copy(update={
        "data": recipe.data.model_copy(update={"traces": traces}),
        "evaluation": recipe.evaluation.model_copy(update={"traces": "none", "items": "none"})})
    expected = run.manifest.data_digests.get("traces")
    try:
        data = find_data(replace(sealed.loaded, recipe=traces_only))
    except RequestError as error:
        raise RequestError(f"{error.given} ({run.path.name} was trained on it)",
                           f"a file with SHA-256 {expected}", "--data FILE gives its path") from None
    if data.digests["traces"] != expected:
        raise RequestError(f"traces {traces} have another SHA-256: {data.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {expected}", "--data FILE gives their path")
    return data


def _recorded_rows(sealed: SealedRun, data: RunData) -> RowSet:
    """The rows that the run was trained on, selected by its row index and checked by its digest."""
    run, digest = sealed.run, sealed.run.manifest.data_digests.get("rows")
    # A smoke run takes the first traces only, and long rows may be dropped: the index has the rest.
    index = {row["id"]: row for row in jsonl.read(run.path / ROWS)[0]}
    recipe = sealed.loaded.recipe
    way = way_of(recipe)
    known = way.ids_of_examples([*index])
    rows = way.build_rows([entry for entry in data.examples if entry.id in known],
                          sealed.tokenizer, sealed.template, recipe.data)
    # The rules that make rows may have changed with the version.
    if rows.digest != digest:
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digest)[:16]}…)")
    # A row's digest covers its mask, but not the count of learned turns.
    if wrong := [line["id"] for line in rows.index if line["status"] == "kept"
                 and line.get("learned_turns") != index[line["id"]].get("learned_turns")]:
        raise RecordError(f"{run.path}: {ROWS} has other learned turns than the data for {wrong[0][:80]!r}")
    return rows


def _recorded_teacher(sealed: SealedRun) -> Teacher | Absent:
    """The teacher, if it is at the recipe's path or near the run and equals the recorded one byte for byte."""
    if (algorithm := way_of(sealed.loaded.recipe).teacher_keys) is None:
        return absent("the run has none")
    try:
        teacher = find_teacher(sealed.loaded, sealed.tokenizer, sealed.shape, recorded_bases(sealed.run))
        # A missing teacher is no error: the record has its log probabilities.
        same = teacher.digest == sealed.run.manifest.data_digests.get("teacher")
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")
    except RecordError as error:
        return absent(str(error))
    return teacher if same else absent(f"{algorithm.teacher} differs from the teacher of the run")
