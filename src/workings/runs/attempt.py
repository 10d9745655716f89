"""One attempt at a run: from an open run directory through the training loop to the seal."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workings.distributed.process_group import ProcessGroup
from workings.engines.base import MicroBatchEngine, ShardSavingEngine, State
from workings.evaluation.comparison.kept_checkpoint import KeptCheckpoint
from workings.evidence.readmes import run_readme
from workings.hardware.memory import KEPT_SHARE, byte_text, host_memory, keeps_freed_blocks, map_large_blocks
from workings.record import attempts, jsonl
from workings.record.canonical import read_json
from workings.record.checkpoints import FIELDS, KEPT, BestCheckpoint, best_checkpoint
from workings.record.digest import HashProgress
from workings.record.layout import (
    ANNOUNCED,
    CONFIG,
    DATA_DIGESTS,
    MEASURED,
    METRICS,
    PLAN,
    README,
    RECIPE_EVALUATION,
)
from workings.record.manifest import RunFolder
from workings.record.memory_use import excess_sentence, memory_sentence
from workings.record.metrics import EQUAL, Callback, nothing_left
from workings.record.progress import slow_operation
from workings.record.storage import storage
from workings.runs.create_or_resume import Start, create_run, progress_facts, resume_run
from workings.runs.doctor import Examination
from workings.runs.expected_time import expected_time
from workings.runs.memory_check import MemoryWatch
from workings.runs.preflight import preflight_lines
from workings.runs.prepare import TrainSetup
from workings.runs.run_metadata import build_manifest, data_digests, write_request
from workings.runs.train_result import TrainResult
from workings.scoring.items import items_digest
from workings.scoring.worker_pool import ScoringProcess
from workings.training.display import Display
from workings.training.loop import Outcome, Progress, TrainingLoop
from workings.training.observer import HeldOutItems, HeldOutObserver
from workings.training.stopping import StopRequest
from workings.ways.base import way_of

BEFORE = "held_out_before"
"""Kind of the event with the answers to the held-out items before the first step."""
TOLD_FROM = 1 << 30
"""Planned bytes from which on a run says how far above its plan it may come."""
_WATCHED = {*FIELDS.values(), EQUAL}
"""Fields of the metrics lines that may end a run early."""


@dataclass(kw_only=True)
class _RunRecorder:
    """Connects the training loop (`workings.training.loop.RunHooks`) to the record, the display and the callback."""

    attempt: "Attempt"
    display: Display
    on_step: Callback
    stop: StopRequest
    processes: ProcessGroup
    progress: Progress
    lines: list[dict[str, Any]]
    """Lines of the measured steps and the rollouts so far, those of earlier attempts included."""
    saved_at: float = field(default_factory=time.monotonic)
    """When the last checkpoint was written, or the attempt began."""

    def write_metrics(self, line: dict[str, Any]) -> None:
        """Writes a metrics line."""
        self.attempt.start.writer.metric(line)

    def stop_requested(self) -> bool:
        """Whether a signal, the callback or another process asks to stop."""
        return self.processes.stop_requested(self.stop.requested)

    def early_end(self) -> str:
        """Whether the recipe's patience has ended: with checkpoints that are not better, or with nothing to learn."""
        best = self.best
        # Only a saved step counts as measured, so that the end is at a checkpoint in every attempt.
        return best.reason if best is not None and best.ends_the_run else nothing_left(
            self.attempt.setup.recipe.algorithm.model_dump(), self.lines)

    @property
    def best(self) -> BestCheckpoint | None:
        """The best checkpoint so far; None where the recipe keeps the last one."""
        setup = self.attempt.setup
        return best_checkpoint(setup.recipe.checkpoint.model_dump(), self.lines, setup.schedule.steps)

    def keep_best(self) -> None:
        """Keeps the best checkpoint so far from being dropped."""
        if (best := self.best) is not None:
            self.attempt.start.writer.checkpoints.best_step = best.step

    def checkpoint_is_due(self, step: int) -> bool:
        """Whether the recipe asks for a checkpoint after this step."""
        keys = self.attempt.setup.recipe.checkpoint
        minutes = (time.monotonic() - self.saved_at) / 60
        return step % keys.every_steps == 0 or 0 < keys.every_minutes <= minutes

    def save_checkpoint(self, state: State, progress: Progress) -> None:
        """Saves a checkpoint in the run directory."""
        engine = self.attempt.setup.engine
        write = engine.save
        if self.attempt.setup.recipe.checkpoint.sharded:
            assert isinstance(engine, ShardSavingEngine)  # `prepare` has refused others
            write = engine.save_shards
        self.attempt.start.writer.checkpoints.save(
            progress.step, lambda directory: write(state, directory), progress_facts(progress))
        self.saved_at = time.monotonic()

    def step_done(self, line: dict[str, Any], progress: Progress) -> None:
        """Shows a finished step and calls the callback."""
        self.progress = progress
        if not line.keys().isdisjoint(_WATCHED):
            self.lines.append(line)
            self.keep_best()
        self.display.show(line, progress)
        if self.on_step(line) is False:
            self.stop.requested = True


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt at a run, whose directory is open."""

    start: Start
    setup: TrainSetup
    out: Path
    doctor: Examination

    @classmethod
    def begin(cls, setup: TrainSetup, out: Path, resume: bool, doctor: Examination) -> "Attempt":
        """Opens the run directory, lists the attempt, and writes the request."""
        with storage(out.parent, "make"):
            out.parent.mkdir(parents=True, exist_ok=True)
        # Before the run's folder exists, so that an attempt that dies at once is listed.
        attempt = attempts.append(out.parent, {"run": out.name, "recipe": setup.recipe.name,
                                               "config_digest": setup.config_digest, "resume": resume})
        start = resume_run(out, {CONFIG: setup.config, DATA_DIGESTS: data_digests(setup)},
                           setup.device.mesh, attempt) if resume else create_run(out, attempt)
        # A resumed run writes it again, because devices and free memory may have changed.
        write_request(start.writer, setup)
        if setup.evaluation is not None and not start.resumed:
            # Sealed with the first events: the items that count are recorded before their answers are known.
            start.writer.event(ANNOUNCED, evaluation=RECIPE_EVALUATION, decoding=setup.evaluation.decoding(),
                               items={"count": len(setup.data.items), "digest": items_digest(setup.data.items)})
        return cls(start=start, setup=setup, out=out, doctor=doctor)

    def take_steps(self, on_step: Callback, stop: StopRequest, processes: ProcessGroup) -> Outcome:
        """Runs the training loop.

        Args:
            on_step: is called for every step; False asks for a stop.
            stop: signals that ask for a stop.
            processes: that train together.
        """
        start, setup, writer = self.start, self.setup, self.start.writer
        # Set here, because a resumed run may keep another number of checkpoints.
        writer.checkpoints.keep_last = setup.recipe.checkpoint.keep_last
        memory = read_json(writer.path(PLAN)), read_json(writer.path(MEASURED))
        with Display(setup.recipe.name, setup.schedule.steps, start.progress, writer.log, memory) as display:
            if isinstance(setup.engine, MicroBatchEngine):
                setup.engine.report_micro_batches_to(display.micro_batch_done)
            for line in (*self._preamble(), *self._spare_memory()):
                display.say(line)
            hooks = _RunRecorder(attempt=self, display=display, on_step=on_step, stop=stop,
                                 processes=processes,
                                 progress=start.progress,
                                 lines=[line for line in writer.metrics()
                                        if not line.keys().isdisjoint(_WATCHED)])
            hooks.keep_best()
            # The first two may start a process that scores; neither outlives the training.
            with (setup.training_data.experience(setup.engine, writer) as experience,
                  self._held_out_items() as held_out_items):
                loop = TrainingLoop(engine=setup.engine, experience=experience, schedule=setup.schedule,
                                    observer=self._observer(held_out_items, display.sample), hooks=hooks,
                                    progress=start.progress)
                # The loop makes the first state: it may run out of memory, which is recorded.
                outcome = loop.run(lambda: self._first_state(held_out_items, display))
            # Inside the display's block, because it is part of the run's log.
            if (best := hooks.best) is not None:
                display.say(f"kept       {self._kept(best).sentence}")
            return outcome

    def seal(self, outcome: Outcome, facts: Mapping[str, Any], watch: MemoryWatch) -> TrainResult:
        """Writes measurements, manifest and README, and seals the run.

        Args:
            outcome: of the loop.
            facts: fields of the manifest that were known before the first step.
            watch: measures the memory of this attempt.
        """
        setup, start, writer = self.setup, self.start, self.start.writer
        memory = setup.engine.memory()  # once, because a CPU's peak still grows during this
        plan, measured = read_json(writer.path(PLAN)), watch.facts(setup, memory, outcome.out_of_memory)
        if outcome.out_of_memory:
            writer.event("out_of_memory")
            sentence = memory_sentence(plan, measured)
            outcome = replace(outcome, reason=f"{outcome.reason}: {sentence}; {outcome.out_of_memory}")
        writer.write_json(MEASURED, measured)
        if exceeded := excess_sentence(plan, measured):
            kept = setup.device.platform == "cpu" and keeps_freed_blocks()
            self._say_last(f"over plan  {exceeded}" + "; glibc keeps freed blocks while memory is free" * kept)
        # Read back from the file: the first lines of a resumed run were written by another process.
        metrics = jsonl.read(writer.path(METRICS))[0]
        if (best := best_checkpoint(setup.recipe.checkpoint.model_dump(), metrics, setup.schedule.steps)) is not None:
            facts = {**facts, KEPT: self._kept(best).facts()}
        manifest = build_manifest(setup, start, outcome, dict(facts))
        if outcome.status == "failed":
            writer.event("failed", reason=outcome.reason)
        # Before sealing, which requires it.
        writer.write_text(README, run_readme(manifest, RunFolder(writer.directory)))
        # Progress goes to standard error: the run's own log is among the files that are sealed.
        run = writer.seal(outcome.status, manifest, HashProgress(lambda text: sys.stderr.write(f"sealing: {text}\n")))
        return TrainResult.of_metrics(
            metrics, status=outcome.status, reason=outcome.reason, steps=outcome.progress.step,
            supervised_tokens=outcome.progress.supervised_tokens, run=run, setup=setup, state=outcome.state,
            reward_failed=outcome.reward_failed)

    def _spare_memory(self) -> Iterator[str]:
        """Has freed memory returned at once where a run on a CPU may not fit otherwise. Says how near the plan is."""
        if self.setup.device.platform != "cpu" or not keeps_freed_blocks():
            return
        if KEPT_SHARE * self.setup.verdict.peak_bytes > host_memory().available_bytes:
            map_large_blocks()
            yield "memory     freed memory is returned at once, because little is free: slower, and near the plan"
        # A compiled program has one block for all its tensors; an engine that is traced asks for each.
        elif self.setup.verdict.source == "traced" and self.setup.verdict.peak_bytes > TOLD_FROM:
            yield ("memory     the run may take up to 1.7 times the plan while memory is free, because glibc keeps "
                   "freed blocks")

    def _preamble(self) -> Iterator[str]:
        """Lines about the training that is about to start, and about its problems."""
        setup = self.setup
        yield from preflight_lines(setup, self.out, self._learned_form())
        # A note, not an error: a leak makes the evaluation worthless, not the model.
        if trained := setup.trained_items:
            yield (f"leak       {len(trained):,} of {len(setup.data.items):,} held-out items are also in the training "
                   "data, "
                   f"such as {trained[0]}: they measure nothing, and `workings verify` will report it; try: other "
                   "evaluation.items")
        if (non_text := setup.non_text_weights) is not None:
            yield (f"left aside {', '.join(non_text.parts) or 'nothing'} of {non_text.architecture} "
                   f"({non_text.tensors} tensors, {byte_text(non_text.size)}): only text is trained; `workings export` "
                   "adds them again")
        if disagreement := setup.stop_tokens.disagreement:
            yield f"stop       {disagreement}"
        if setup.template.note:
            yield f"template   {setup.template.note}"
        yield from (f"columns    {note}" for note in setup.data.unread_columns)
        for finding in self.doctor.findings:
            if finding.judgement == "problem":
                yield f"doctor     {finding.what}; {finding.why}; try: {finding.mend}"
        yield from setup.training_data.remarks()
        yield from (f"renamed    {note}" for note in setup.loaded.renamed)
        yield from (f"chosen     {note}" for note in setup.loaded.chosen)
        if time := expected_time(setup):
            yield f"time       {time}"
        if self.start.resumed:
            yield f"resume     after step {self.start.progress.step}"

    def _say_last(self, line: str) -> None:
        """A line of the log and the terminal after the training."""
        self.start.writer.log(line)
        sys.stderr.write(f"{line}\n")

    def _learned_form(self) -> str:
        """Form of the completions that are learned, with the stop token; empty for sampled completions."""
        recipe = self.setup.recipe
        form = way_of(recipe).learned_form(recipe)
        from_start = ", of a raw text all of it" if recipe.data.template == "plain" else ""
        return form and (f"{json.dumps(form + self.setup.template.stop_text, ensure_ascii=False)} after the prompt"
                f"{from_start} (data.reasoning: {recipe.data.reasoning}, data.template: {recipe.data.template})")

    def _first_state(self, held_out_items: HeldOutItems | None, display: Display) -> State:
        state = self._made_or_restored(held_out_items)
        display.first_step_begins()
        return state

    def _made_or_restored(self, held_out_items: HeldOutItems | None) -> State:
        setup = self.setup
        if self.start.checkpoint is not None:
            with slow_operation("reading the checkpoint"):
                return setup.engine.restore(self.start.checkpoint.path)
        with slow_operation("reading the weights"):
            # Before evaluating held-out items, whose first answers are the untrained model's.
            state = setup.initial_state(setup.engine, setup.recipe.seed)
        if held_out_items is not None:
            # An event, because it belongs to no step; a resumed run keeps its events.
            self.start.writer.event(BEFORE, **held_out_items.evaluate(state))
        return state

    @contextmanager
    def _held_out_items(self) -> Iterator[HeldOutItems | None]:
        """The items that are scored during training, as long as the process that scores them lives."""
        setup, evaluation = self.setup, self.setup.evaluation
        if not setup.watched_items or evaluation is None:
            yield None
            return
        # A separate process, because a user's scorer may hang or take memory that training needs.
        with ScoringProcess(evaluation) as scorer:
            yield HeldOutItems(
                sampler=setup.sampler or setup.engine, items=setup.watched_items,
                tokenizer=setup.tokenizer, template=setup.template, max_new_tokens=evaluation.max_new_tokens,
                batch_size=evaluation.batch_size, scorer=scorer)

    def _observer(self, held_out_items: HeldOutItems | None,
                  log_sample: Callable[[str], None]) -> HeldOutObserver | None:
        setup, keys = self.setup, self.setup.recipe.evaluation
        if not setup.held_out and not setup.questions and held_out_items is None:
            return None
        return HeldOutObserver(
            engine=setup.engine, sampler=setup.sampler or setup.engine, batches=setup.held_out,
            questions=setup.questions, tokenizer=setup.tokenizer,
            template=setup.template, max_new_tokens=keys.max_new_tokens, every_steps=keys.every_steps,
            last_step=setup.schedule.steps, log_sample=log_sample, held_out_items=held_out_items)

    def _kept(self, best: BestCheckpoint) -> KeptCheckpoint:
        return KeptCheckpoint.of(best, [item.cluster for item in self.setup.watched_items])
