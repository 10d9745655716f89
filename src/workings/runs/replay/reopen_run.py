"""Reopens a sealed run for a replay: its engine, the rows it was trained on, its first weights, its checkpoints."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from workings.config.algorithms import TeacherAlgorithm, TraceDistill
from workings.data.batches import Batches, Position
from workings.data.pair_rows import LogProbs, build_pair_rows, pair_ids, read_log_prob_lines
from workings.data.rows import RowSet, build_rows
from workings.data.top_tokens import TeacherTopTokens, TopTokenFiles, TopTokensOfRow
from workings.engines.base import Engine, LikelihoodEngine, State
from workings.errors import RecordError, RequestError
from workings.evidence.replay.rollout_source import Change, RecordedRewards, RolloutSource
from workings.evidence.replay.row_source import RowSource
from workings.evidence.replay.steps import BatchSource, TraceSource
from workings.inputs.datasets import RunData, find_data
from workings.inputs.resolve import ResolvedRun
from workings.record import jsonl
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import PROMPTS, REFERENCE_LOG_PROBS, ROWS, rollout_file, top_tokens_file
from workings.record.reader import RunRecord
from workings.record.untrusted_files import read_plain
from workings.record.values import Absent, absent
from workings.rollouts.prompts import Prompt, PromptSet, read_recorded_prompts
from workings.rollouts.rollout import Rollout
from workings.rollouts.rollout_json import from_json
from workings.runs.open_model import AS_RECORDED, SealedRun
from workings.ways.distillation_experience import TopTokensFunction, teacher_top_tokens_by_row, with_top_tokens
from workings.ways.find_teacher import find_teacher
from workings.ways.preference_experience import log_probs_by_row, with_log_probs
from workings.ways.row_data import PairData, row_data
from workings.ways.teacher import LogProbFunction, Teacher
from workings.ways.training_data import prompt_data


@dataclass(frozen=True, kw_only=True)
class ReplayInputs:
    """Paths of a run's inputs that its record does not hold, and the device."""

    data: Path | None = None
    """The file of traces; None: where the recipe names it."""
    weights: Path | None = None
    """Directory of the weights that training started from; None: where the recipe names it."""
    device: str = AS_RECORDED
    fsdp: int = 0
    """Devices over which rows and parameters are split; 0: as the recipe's mesh resolves here."""


@dataclass(frozen=True, kw_only=True)
class ReopenedRun(ResolvedRun):
    """A sealed run whose steps can be repeated."""

    run: RunRecord
    engine: Engine
    rows_or_prompts: RowSet | PromptSet
    """Rows that the run was trained on, or prompts of its rollouts."""
    teacher: Teacher | Absent
    """The teacher, or why it cannot be opened; its recorded log probabilities are then used."""

    @cached_property
    def checkpoints_by_step(self) -> dict[int, Path]:
        """Checkpoint folders by step, unchecked."""
        return {int(path.name.removeprefix("step_")): path for path in self.run.checkpoints.folders()}

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, every byte checked. Raises `RecordError`."""
        return self.run.checkpoints.load(self.checkpoints_by_step[step])

    def source(self, seed: int, *, exact: bool, change: Change | None = None) -> BatchSource:
        """Batch source that reproduces the run's batches from a seed.

        Batches have the recorded number of rows, whatever the mesh is here.

        Args:
            seed: decides data order and sampling.
            exact: train on completions that are sampled here instead of the recorded ones (see `RolloutSource`).
            change: modifies rollouts, for the negative controls of a run with rollouts.
        """
        fsdp = self.run.manifest.mesh.get("fsdp", 1)
        if isinstance(self.rows_or_prompts, RowSet):
            rows = row_data(self.recipe.model_copy(update={"seed": seed}), self.rows_or_prompts, fsdp)
            if isinstance(self.recipe.algorithm, TraceDistill):
                return self._distillation_source(rows.batches, self.recipe.algorithm)
            return self._pair_source(rows, exact) if isinstance(rows, PairData) else TraceSource(rows.batches)
        teacher = None if isinstance(self.teacher, Absent) else self._teacher_log_probs
        data = prompt_data(self, replace(self.rows_or_prompts, seed=seed), fsdp)
        first = self.rollout(1)
        if first is None:
            raise RecordError(f"{self.run.path}: no rollout of step 1")
        # Its rewards come from the record: nothing is rewarded here.
        sampler = data.rollout_sampler(self.engine, RecordedRewards(recorded=first), teacher)
        source = RolloutSource(sampler=sampler, recorded=self.rollout, exact=exact)
        return source if change is None else replace(source, change=change)

    def _pair_source(self, data: PairData, exact: bool) -> RowSource[float]:
        """Preference pairs with their reference log probabilities: recorded ones or, for an exact replay, new ones."""
        recorded = read_log_prob_lines(jsonl.read(self.run.path / REFERENCE_LOG_PROBS)[0])
        # Another seed, for a control, may begin with rows that a short run never reached.
        known = {**dict.fromkeys(data.rows.ids, 0.0), **recorded}

        def compute(state: State, position: Position) -> LogProbs:
            engine = self.engine
            reference = self._first_weights if self.recipe.method.trains_all_weights else data.reference(engine, state)
            assert isinstance(engine, LikelihoodEngine)  # the run was trained by one
            return log_probs_by_row(engine, reference, data.batches, position)

        return RowSource(batches=data.batches, add=with_log_probs, recorded=known, compute=compute if exact else None)

    def _distillation_source(self, batches: Batches, algorithm: TraceDistill) -> BatchSource:
        """Traces with the teacher's top tokens: computed again if the teacher can be opened, else the recorded ones."""
        teacher = None if isinstance(self.teacher, Absent) else self._teacher_top_tokens
        return RowSource(
            batches=batches, recorded=self._recorded_top_tokens,
            add=partial(with_top_tokens, objective=algorithm.objective),
            compute=teacher and (lambda state, position: teacher_top_tokens_by_row(teacher, batches, position)))

    @cached_property
    def _recorded_top_tokens(self) -> TeacherTopTokens:
        """Recorded teacher top tokens.

        Rows that a short run never reached get uniform placeholder values, because a negative control with another
        seed may reach them.
        """
        assert isinstance(self.rows_or_prompts, RowSet)
        assert isinstance(self.recipe.algorithm, TraceDistill)
        count = self.recipe.algorithm.top_k
        counts = self.rows_or_prompts.learned_positions
        recorded: dict[str, TopTokensOfRow] = {}
        # The run's own order decides which rows share a file, whatever seed a control asks for.
        own = row_data(self.recipe, self.rows_or_prompts, self.run.manifest.mesh.get("fsdp", 1))
        files = TopTokenFiles(batches=own.batches, steps=own.steps, counts=counts, count=count)
        for number, part in enumerate(files.parts):
            recorded |= files.read(read_plain(self.run.path / top_tokens_file(number)), part)
        # The placeholder gives its tokens half of the probability together, in equal parts.
        return {name: TopTokensOfRow(np.zeros((size, count), np.int32), np.full((size, count), -np.log(2 * count)))
                for name, size in counts.items() if name not in recorded} | recorded

    @cached_property
    def _first_weights(self) -> State:
        """The model before training, loaded once: it stays in memory beside the trained one."""
        return self.initial_state(self.engine, self.recipe.seed, trainable=False)

    @cached_property
    def _teacher_log_probs(self) -> LogProbFunction:
        """The teacher's log probabilities; it is opened once, because all controls need it as well."""
        assert isinstance(self.teacher, Teacher)  # the caller has checked
        return self.teacher.open(self.engine, self)

    @cached_property
    def _teacher_top_tokens(self) -> TopTokensFunction:
        """The teacher's most likely tokens; it is opened once."""
        assert isinstance(self.teacher, Teacher)
        assert isinstance(self.recipe.algorithm, TraceDistill)
        return self.teacher.open_for_tokens(self.engine, self, self.recipe.algorithm.top_k)

    def rollout(self, step: int) -> Rollout | None:
        """The rollout whose first update is ``step``, read from its file; None if there is none."""
        path = self.run.path / rollout_file(step)
        return from_json(loads(read_plain(path)), self._prompts) if path.is_file() else None

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        assert isinstance(self.rows_or_prompts, PromptSet)
        return {prompt.item.id: prompt for prompt in self.rows_or_prompts.prompts}


def reopen_run(path: Path, inputs: ReplayInputs) -> ReopenedRun:
    """Opens a sealed run as it was trained: its engine, its rows, its first weights, its checkpoints.

    Raises:
        RequestError: no sealed run; data or weights are missing or not the recorded ones; no such engine or device.
        RecordError: the record is damaged.
    """
    sealed = SealedRun.open(path)
    run, recipe = sealed.run, sealed.loaded.recipe
    # Files are checked by their digests before a device is opened.
    if recipe.uses_rollouts:
        # The record holds prompts with their tokens: no data file is needed.
        data = RunData(traces=[], held_out=[], items=[], digests={})
        rows_or_prompts: RowSet | PromptSet = _recorded_prompts(sealed)
    else:
        data = _recorded_data(sealed, inputs.data)
        rows_or_prompts = _recorded_rows(sealed, data)
    weights = sealed.recorded_weights(inputs.weights)
    engine = sealed.open_engine(inputs.device, weights.directory, inputs.fsdp)
    rows_of_micro_batch = run.manifest.global_batch // recipe.batch.accumulation
    # Micro batches keep the recorded number of rows. Where it does not divide among the devices here,
    # one device takes them all.
    if not inputs.fsdp and rows_of_micro_batch % engine.describe().mesh.get("fsdp", 1):
        engine = sealed.open_engine(inputs.device, weights.directory, fsdp=1)
    return ReopenedRun(loaded=sealed.loaded, data=data, weights=weights, tokenizer=sealed.tokenizer,
                       template=sealed.template, shape=sealed.shape, run=run, engine=engine,
                       rows_or_prompts=rows_or_prompts, teacher=_recorded_teacher(sealed))


def _recorded_data(sealed: SealedRun, given: Path | None) -> RunData:
    """The data that the run was trained on, checked by their digest; evaluation data are not needed."""
    run, recipe = sealed.run, sealed.loaded.recipe
    # Absolute, because a relative name would be looked for beside the recipe and not here.
    traces = recipe.data.traces if given is None else str(given.absolute())
    # Held-out traces and items may be gone by now, and no step depends on them.
    traces_only = recipe.model_copy(update={
        "data": recipe.data.model_copy(update={"traces": traces}),
        "evaluation": recipe.evaluation.model_copy(update={"traces": "none", "items": "none"})})
    expected = run.manifest.data_digests.get("traces")
    try:
        data = find_data(replace(sealed.loaded, recipe=traces_only))
    except RequestError as error:
        raise RequestError(f"{error.given}, the data that {run.path.name} was trained on",
                           f"a file with SHA-256 {expected}", "--data FILE gives its path") from None
    # A file of the same name may have changed since; only its bytes prove it.
    if data.digests["traces"] != expected:
        raise RequestError(f"traces {traces} with SHA-256 {data.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {expected}",
                           "--data FILE gives their path")
    return data


def _recorded_rows(sealed: SealedRun, data: RunData) -> RowSet:
    """The rows that the run was trained on, selected by its row index and checked by its digest."""
    run, digest = sealed.run, sealed.run.manifest.data_digests.get("rows")
    # A smoke run takes the first traces only, and rows that are too long may be dropped: the index has the others.
    index = {row["id"]: row for row in jsonl.read(run.path / ROWS)[0]}
    known = set(index)
    settings = sealed.tokenizer, sealed.template, sealed.loaded.recipe.data
    if sealed.loaded.recipe.uses_pairs:
        known = set(pair_ids(list(index)))
        rows = build_pair_rows([pair for pair in data.pairs if pair.id in known], *settings).rows
    else:
        rows = build_rows([trace for trace in data.traces if trace.id in known], *settings)
    # The rules that make rows may have changed with the version; then no step could be the same.
    if rows.digest != digest:
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digest)[:16]}…)")
    # A row's digest covers its mask; the index's count of learned turns has to be compared as well.
    if wrong := [line["id"] for line in rows.index if line["status"] == "kept"
                 and line.get("learned_turns") != index[line["id"]].get("learned_turns")]:
        raise RecordError(f"{run.path}: {ROWS} has other learned turns than the data give, for {wrong[0][:80]!r}")
    return rows


def _recorded_prompts(sealed: SealedRun) -> PromptSet:
    """The prompts of the run's rollouts, checked by their digest."""
    run = sealed.run
    prompts = read_recorded_prompts(jsonl.read(run.path / PROMPTS)[0], run.manifest.seed)
    if prompts.digest != run.manifest.data_digests.get("prompts"):
        raise RecordError(f"{run.path}: {PROMPTS} is not what its manifest names")
    return prompts


def _recorded_teacher(sealed: SealedRun) -> Teacher | Absent:
    """The teacher, if it is at the recipe's path or near the run and equals the recorded one byte for byte."""
    recipe = sealed.loaded.recipe
    if not isinstance(recipe.algorithm, TeacherAlgorithm):
        return absent("the run has none")
    try:
        teacher = find_teacher(sealed.loaded, sealed.tokenizer, sealed.shape, sealed.bases)
        # A teacher that is gone is no error: what it said is in the record.
        same = teacher.digest == sealed.run.manifest.data_digests.get("teacher")
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")
    except RecordError as error:
        return absent(str(error))
    return teacher if same else absent(f"{recipe.algorithm.teacher} is not the teacher that the run was trained with")
