"""One attempt at a run: opens the run directory, runs the training loop, and seals the record."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workings.config.training import TrainingConfig
from workings.data.batches import Position
from workings.data.preview import unread_columns
from workings.data.traces import completion_form
from workings.distributed.process_group import ProcessGroup
from workings.engines.base import ShardSavingEngine, State
from workings.evaluation.comparison.kept_checkpoint import kept_checkpoint
from workings.evidence.readmes import run_readme
from workings.hardware.device import row_devices
from workings.hardware.memory import KEPT_SHARE, byte_text, gib, host_memory, keeps_freed_blocks, map_large_blocks
from workings.models.unverified import unverified_sentence
from workings.models.weights import parameter_count
from workings.record import attempts, jsonl, layout
from workings.record.canonical import read_json
from workings.record.checkpoints import FIELDS, KEPT, BestCheckpoint, Checkpoint, best_checkpoint
from workings.record.manifest import RunFolder
from workings.record.memory_use import excess_sentence, memory_sentence
from workings.record.metrics import EQUAL, Callback, nothing_left
from workings.record.progress import slow_operation
from workings.record.storage import storage
from workings.record.writer import RunWriter
from workings.runs.create_or_resume import resume_run
from workings.runs.doctor import Examination
from workings.runs.expected_time import expected_time
from workings.runs.memory_check import measured_memory
from workings.runs.prepare import TrainSetup
from workings.runs.run_metadata import build_manifest, request_of, write_request
from workings.runs.train_result import TrainResult
from workings.scoring.items import items_digest
from workings.scoring.worker_pool import ScoringProcess
from workings.training.display import Display
from workings.training.loop import Outcome, Progress, RunHooks, TrainingLoop
from workings.training.observer import HeldOutObserver
from workings.training.stopping import StopRequest

BEFORE = "held_out_before"
"""Kind of the event with the answers to the held-out items before the first step."""
TOLD_FROM = 1 << 30
"""A run with a larger plan, in bytes, says by how much it may exceed the plan."""
_WATCHED = {*FIELDS.values(), EQUAL}
"""Fields of the metrics lines that may end a run early."""


@dataclass(kw_only=True)
class _RunRecorder(RunHooks):
    """Connects the training loop to the record, the display and the callback; `RunHooks` describes the methods."""

    attempt: "Attempt"
    display: Display
    on_step: Callback
    stop: StopRequest
    processes: ProcessGroup
    watched_lines: list[dict[str, Any]]
    """Metrics lines so far, earlier attempts included, of the steps with a field that may end the run (`_WATCHED`)."""
    saved_at: float = field(default_factory=time.monotonic)
    """When the last checkpoint was written, or the attempt began."""

    def write_metrics(self, line: dict[str, Any]) -> None:
        self.attempt.writer.metric(line)

    def stop_requested(self) -> bool:
        return self.processes.stop_requested(self.stop.requested)

    def early_end(self) -> str:
        best = self.best()
        # Only a saved step counts as measured, so that the end is at a checkpoint in every attempt.
        if best is not None and best.ends_the_run:
            return best.reason
        return nothing_left(self.attempt.setup.recipe.algorithm.model_dump(), self.watched_lines)

    def best(self) -> BestCheckpoint | None:
        """The best checkpoint so far, which is kept from now on; None if the recipe keeps the last one."""
        best = self.attempt.best(self.watched_lines)
        if best is not None:
            self.attempt.writer.checkpoints.best_step = best.step
        return best

    def checkpoint_is_due(self, step: int) -> bool:
        keys = self.attempt.setup.recipe.checkpoint
        minutes = (time.monotonic() - self.saved_at) / 60
        return step % keys.every_steps == 0 or 0 < keys.every_minutes <= minutes

    def save_checkpoint(self, state: State, progress: Progress) -> None:
        engine = self.attempt.setup.engine
        write = engine.save
        if self.attempt.setup.recipe.checkpoint.sharded:
            assert isinstance(engine, ShardSavingEngine)  # `prepare` has refused others
            write = engine.save_shards
        self.attempt.writer.checkpoints.save(progress.step, lambda directory: write(state, directory), {
            "position": progress.position.to_json(), "tokens": progress.tokens,
            "supervised_tokens": progress.supervised_tokens, "training_seconds": progress.seconds})
        self.saved_at = time.monotonic()

    def step_done(self, line: dict[str, Any], progress: Progress) -> None:
        if not line.keys().isdisjoint(_WATCHED):
            self.watched_lines.append(line)
            self.best()
        self.display.show(line, progress)
        if self.on_step(line) is False:
            self.stop.requested = True


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt at a run, whose directory is open."""

    writer: RunWriter
    checkpoint: Checkpoint | None
    """None for a new run."""
    resumed: bool
    """Whether an earlier attempt began."""
    setup: TrainSetup
    doctor: Examination

    @classmethod
    def begin(cls, setup: TrainSetup, out: Path, resume: bool, doctor: Examination) -> "Attempt":
        """Opens the run directory, lists the attempt, and writes the request."""
        with storage(out.parent, "make"):
            out.parent.mkdir(parents=True, exist_ok=True)
        # Before the run's folder exists, so that an attempt that dies at once is listed.
        attempt = attempts.append(out.parent, {"run": out.name, "recipe": setup.recipe.name,
                                               "config_digest": setup.config_digest, "resume": resume})
        if resume:
            writer, checkpoint, resumed = resume_run(out, request_of(setup), setup.device.mesh, attempt)
        else:
            writer, checkpoint, resumed = RunWriter.create(out), None, False
            writer.event("started", attempt=attempt)
        # A resumed run writes it again, because devices and free memory may have changed.
        write_request(writer, setup)
        if setup.evaluation is not None and not resumed:
            # Sealed with the first events: the items that count are recorded before their answers are known.
            writer.event(layout.ANNOUNCED, evaluation=layout.RECIPE_EVALUATION, decoding=setup.evaluation.decoding(),
                         items={"count": len(setup.data.items), "digest": items_digest(setup.data.items)})
        return cls(writer=writer, checkpoint=checkpoint, resumed=resumed, setup=setup, doctor=doctor)

    @property
    def progress(self) -> Progress:
        """Progress of the checkpoint; that of a new run without one."""
        if self.checkpoint is None:
            return Progress(step=0, position=Position())
        facts = self.checkpoint.facts
        return Progress(step=self.checkpoint.step, position=Position.from_json(facts["position"]),
                        tokens=facts["tokens"], supervised_tokens=facts["supervised_tokens"],
                        seconds=facts["training_seconds"])

    def take_steps(self, on_step: Callback, stop: StopRequest, processes: ProcessGroup) -> Outcome:
        """Runs the training loop; ``on_step`` is called for every step, and returns False to ask for a stop."""
        setup, writer, progress = self.setup, self.writer, self.progress
        writer.checkpoints.keep_last = setup.recipe.checkpoint.keep_last
        memory = read_json(writer.path(layout.PLAN)), read_json(writer.path(layout.MEASURED))
        with Display(setup.recipe.name, setup.recipe.training.steps, progress, writer.log, memory) as display:
            self._spare_memory(display)
            for line in self._preamble():
                display.say(line)
            watched = [line for line in writer.metrics() if not line.keys().isdisjoint(_WATCHED)]
            hooks = _RunRecorder(attempt=self, display=display, on_step=on_step, stop=stop, processes=processes,
                                 watched_lines=watched)
            hooks.best()
            keys, scoring = setup.recipe.evaluation, setup.evaluation if setup.watched_items else None
            with (setup.training_data.experience(setup.engine, writer) as experience,
                  # A separate process, because a user's scorer may hang or take memory that training needs.
                  nullcontext() if scoring is None else ScoringProcess(scoring) as scorer):
                observer = HeldOutObserver(
                    engine=setup.engine, batches=setup.held_out, questions=setup.questions, items=setup.watched_items,
                    scorer=scorer, tokenizer=setup.tokenizer, template=setup.template,
                    max_new_tokens=keys.max_new_tokens, batch_size=keys.batch_size, every_steps=keys.every_steps,
                    last_step=setup.recipe.training.steps, log_sample=display.sample)
                loop = TrainingLoop(engine=setup.engine, experience=experience, training=setup.recipe.training,
                                    observer=observer, hooks=hooks, progress=progress)
                # The loop makes the first state: it may run out of memory, which is recorded.
                outcome = loop.run(lambda: self._first_state(observer, display))
            best = hooks.best()
            if best is not None:
                display.say(f"kept       {self._kept(best)['sentence']}")
            return outcome

    def seal(self, outcome: Outcome, facts: Mapping[str, Any]) -> TrainResult:
        """Writes measurements, manifest and README, and seals the run.

        ``facts``: fields of the manifest that were known before the first step.
        """
        setup, writer = self.setup, self.writer
        memory = setup.engine.memory()  # once, because a CPU's peak still grows during this
        plan, before = (read_json(writer.path(name)) for name in (layout.PLAN, layout.MEASURED))
        measured = measured_memory(setup, before, memory, outcome.out_of_memory)
        if outcome.out_of_memory:
            writer.event("out_of_memory")
            sentence = memory_sentence(plan, measured)
            outcome = replace(outcome, reason=f"{outcome.reason}: {sentence}; {outcome.out_of_memory}")
        writer.write_json(layout.MEASURED, measured)
        if exceeded := excess_sentence(plan, measured):
            line = f"over plan  {exceeded}"
            if setup.device.platform == "cpu" and keeps_freed_blocks():
                line += "; glibc keeps freed blocks while memory is free"
            writer.log(line)
            sys.stderr.write(f"{line}\n")
        # Read back from the file: the first lines of a resumed run were written by another process.
        metrics = jsonl.read(writer.path(layout.METRICS))[0]
        best = self.best(metrics)
        if best is not None:
            facts = {**facts, KEPT: self._kept(best)}
        manifest = build_manifest(setup, writer, outcome, dict(facts))
        if outcome.status == "failed":
            writer.event("failed", reason=outcome.reason)
        writer.write_text(layout.README, run_readme(manifest, RunFolder(writer.directory, bounded=False)))
        with slow_operation("sealing the run"):
            run = writer.seal(manifest)
        return TrainResult(status=outcome.status, reason=outcome.reason, steps=outcome.progress.step, run=run,
                           setup=setup, state=outcome.state, metrics=metrics)

    def best(self, lines: Sequence[Mapping[str, Any]]) -> BestCheckpoint | None:
        """The best checkpoint by these metrics lines; None where the recipe keeps the last one."""
        recipe = self.setup.recipe
        return best_checkpoint(recipe.checkpoint.model_dump(), lines, recipe.training.steps)

    def _spare_memory(self, display: Display) -> None:
        """Returns freed memory at once if a run on a CPU may not fit otherwise. Says how near the plan it stays."""
        verdict = self.setup.verdict
        if self.setup.device.platform != "cpu" or not keeps_freed_blocks():
            return
        if KEPT_SHARE * verdict.peak_bytes > host_memory().available_bytes:
            map_large_blocks()
            display.say("memory     freed memory is returned at once, because little is free: slower, and near the "
                        "plan")
        # A compiled program has one block for all its tensors; an engine that is traced asks for each.
        elif verdict.source == "traced" and verdict.peak_bytes > TOLD_FROM:
            display.say("memory     the run may take up to 1.7 times the plan while memory is free, because glibc "
                        "keeps freed blocks")

    def _setup_lines(self) -> Iterator[str]:
        """Lines that begin with a subject: device, model, data, memory, the run directory, and others."""
        setup, recipe, device = self.setup, self.setup.recipe, self.setup.device
        shape, weights, batch, precision = setup.shape, setup.weights, recipe.batch, recipe.precision
        devices = row_devices(device.mesh)
        digests = ", ".join(f"{name} {digest[:16]}…" for name, digest in setup.training_data.digests.items())
        yield (f"device     {device.platform}: {device.kind}, {device.count} used, {gib(device.memory_limit_bytes)} "
               f"each ({device.reason})")
        yield f"engine     {recipe.engine}  " + ", ".join(
            f"{name} {number}" for name, number in device.versions.items())
        yield (f"model      {weights.id} at {weights.revision}: {shape.family}, {shape.layers} layers, width "
               f"{shape.width}, vocabulary {shape.vocab_size:,}, {parameter_count(shape):,} parameters")
        if not shape.verified:
            yield f"unverified {unverified_sentence(shape.family)}"
        yield (f"dtypes     parameters {precision.parameters}, compute {precision.compute}, moments "
               f"{precision.moments}, rounding {precision.rounding}")
        yield "mesh       " + " x ".join(f"{axis}={size}" for axis, size in device.mesh.items())
        yield (f"batch      micro {batch.micro_batch} x accumulation {batch.accumulation} x devices {devices} = global "
               f"{batch.micro_batch * batch.accumulation * devices} rows; {recipe.training.steps:,} steps")
        yield f"rate       {rate_text(recipe.training)}"
        yield f"data       {setup.training_data.sentence()}; {digests}"
        if learned := self._learned_form():
            yield f"learned    {learned}"
        yield f"memory     {setup.verdict.reasons[0]}"
        yield f"writing    {self.writer.final}"

    def _preamble(self) -> Iterator[str]:
        """Lines about the training that is about to start, and about its problems."""
        setup = self.setup
        yield from self._setup_lines()
        if trained := setup.trained_items:
            yield (f"leak       {len(trained):,} of {len(setup.data.items):,} held-out items are also in the training "
                   f"data, such as {trained[0]}: they measure nothing, and `workings verify` will report it; try: "
                   "other evaluation.items")
        non_text = setup.non_text_weights
        if non_text is not None:
            yield (f"left aside {', '.join(non_text.parts) or 'nothing'} of {non_text.architecture} "
                   f"({non_text.tensors} tensors, {byte_text(non_text.size)}): only text is trained; `workings export` "
                   "adds them again")
        if disagreement := setup.stop_tokens.disagreement:
            yield f"stop       {disagreement}"
        if setup.template.note:
            yield f"template   {setup.template.note}"
        yield from (f"columns    {note}" for note in unread_columns(setup.data.examples))
        for finding in self.doctor.findings:
            if finding.judgement == "problem":
                yield f"doctor     {finding.what}; {finding.why}; try: {finding.mend}"
        yield from (f"renamed    {note}" for note in setup.loaded.renamed)
        yield from (f"chosen     {note}" for note in setup.loaded.chosen)
        if time := expected_time(setup):
            yield f"time       {time}"
        if self.resumed:
            yield f"resume     after step {self.progress.step}"

    def _learned_form(self) -> str:
        """Form of the completions that are learned, with the stop token; empty for sampled completions."""
        data, examples = self.setup.recipe.data, self.setup.recipe.algorithm.examples
        if examples == "prompts":
            return ""
        # Completions of pairs and verdicts are learned as they are written.
        form = completion_form(data.reasoning) if examples == "traces" else "…"
        from_start = ", of a raw text all of it" if data.template == "plain" else ""
        return (f"{json.dumps(form + self.setup.template.stop_text, ensure_ascii=False)} after the prompt{from_start} "
                f"(data.reasoning: {data.reasoning}, data.template: {data.template})")

    def _first_state(self, observer: HeldOutObserver, display: Display) -> State:
        """Restores the checkpoint, or makes the untrained model, whose answers to the held-out items are recorded."""
        setup, writer = self.setup, self.writer
        if self.checkpoint is not None:
            with slow_operation("reading the checkpoint"):
                state = setup.engine.restore(self.checkpoint.path)
        else:
            with slow_operation("reading the weights"):
                state = setup.initial_state(setup.engine, setup.recipe.seed)
            if answers := observer.score(state):
                # An event, because it belongs to no step; a resumed run keeps its events.
                writer.event(BEFORE, **answers)
        display.first_step_begins()
        return state

    def _kept(self, best: BestCheckpoint) -> dict[str, Any]:
        return kept_checkpoint(best, [item.cluster for item in self.setup.watched_items])


def rate_text(training: TrainingConfig) -> str:
    """The learning rate over the run, with a hint if it is 0 at every step."""
    peak, last = training.learning_rate, training.learning_rate * training.final_share
    warmup = f", {training.warmup_steps:,} steps of warm-up" if training.warmup_steps else ""
    if training.schedule == "constant":
        return f"{peak:g}, constant{warmup}"
    if training.steps > 1:
        return f"{peak:g} at its peak, {training.schedule} to {last:g} at the last step{warmup}"
    if last:
        return f"{last:g} at the only step"
    return "0 at the only step, which changes nothing; try: training.final_share=1"
