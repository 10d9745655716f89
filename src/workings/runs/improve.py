"""Expert iteration: samples a model, keeps correct answers, and trains the next model on them from the base weights.

Known as STaR (arXiv 2203.14465), rejection sampling fine-tuning (2308.01825) and ReST-EM (2312.06585).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.data.rows import prompt_digest, row_problems
from workings.data.traces import Trace, write_traces
from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.comparison.paired import difference_text
from workings.evaluation.settings import settings_of
from workings.evaluation.unit import read_scorecard
from workings.inputs.datasets import RunData, find_data, read_prompts
from workings.inputs.object_store import local_name
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record import atomic, jsonl
from workings.record.canonical import line, loads, read_json
from workings.record.digest import file_digest
from workings.record.layout import SEAL, SELECTION, TOKENIZER
from workings.record.lock import DirectoryLock
from workings.record.manifest import DRAWN_FROM
from workings.record.number_text import percent, table_lines
from workings.record.reader import RunRecord
from workings.runs.choices import with_choices
from workings.runs.create_or_resume import what_is_left
from workings.runs.sample import sample_run
from workings.runs.train_and_evaluate import difference_json, train_to_the_end
from workings.samples.draw import SampleRequest
from workings.samples.selection import Selection
from workings.samples.unit import SampleUnit
from workings.scoring.items import Item

RESULT = "rounds.json"
REQUEST = "improve.json"
"""File of the request: a command only continues the same request, or one with more rounds."""
TIMINGS_FILE = "seconds.jsonl"
"""A line per finished part, with the seconds of the attempt that finished it."""
TWO_RIGHT_SAMPLES = Selection(keep="correct", most_per_prompt=2)


@dataclass(frozen=True, kw_only=True)
class Round:
    """A model of an improvement, and the samples that it was trained on."""

    number: int
    """0: the start."""
    run: Path
    samples: Path | None = None
    """Samples that it was trained on, in addition to the recipe's traces; None for the start."""
    against_before: Comparison | None = None
    """Comparison of this model (B) with that of the previous round (A)."""

    @cached_property
    def overall(self) -> dict[str, Any]:
        """Its greedy accuracy on the held-out items, with its interval."""
        return dict(read_scorecard(self.run)["overall"])

    @property
    def counts(self) -> Mapping[str, Any]:
        """Counts of questions by how often they were solved (`never`, …), and of samples, such as those `learned`."""
        if self.samples is None:
            return {}
        trained = sum(RunRecord.open(self.run).manifest.facts[DRAWN_FROM].values())
        return dict(read_json(self.samples / SELECTION)["counts"]) | {"learned": trained}

    def to_json(self) -> dict[str, Any]:
        """An entry of `rounds` in `improve --json`."""
        return {"round": self.number, "run": str(self.run), "accuracy": self.overall["mean"],
                **({"unit": str(self.samples), **self.counts} if self.samples else {}),
                **(difference_json(self.against_before) if self.against_before else {})}

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of the table; the start learned from no samples."""
        counts, change = self.counts, ""
        if self.against_before is not None and self.against_before.difference is not None:
            change = difference_text(self.against_before.difference, self.against_before.difference.p_value)
        return (str(self.number or "start"),
                *(f"{counts[key]:,}" if key in counts else "" for key in ("learned", "never", "sometimes", "always")),
                percent(self.overall["mean"]), change)


@dataclass(frozen=True, kw_only=True)
class ImproveResult:
    """All rounds of an improvement."""

    out: Path
    rounds: tuple[Round, ...]
    stopped: str
    """Why there are fewer rounds than requested; empty if there are as many."""
    seconds: float
    """Seconds of training, sampling and evaluation."""

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of the last round (B) with the start (A)."""
        # Without rounds the start is compared with itself, and the sentence says so.
        return compare(self.rounds[0].run, self.rounds[-1].run)

    def to_json(self) -> dict[str, Any]:
        """Keys of `improve --json`."""
        difference = self.comparison.difference
        return {
            "accuracies": [round_.overall["mean"] for round_ in self.rounds], **difference_json(self.comparison),
            **({} if difference is None else {"items": difference.n}),
            "seconds": round(self.seconds, 1), "runs": [str(round_.run) for round_ in self.rounds],
            "rounds": [round_.to_json() for round_ in self.rounds], "stopped": self.stopped, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        first, last, difference = self.rounds[0], self.rounds[-1], self.comparison.difference
        if difference is None or len(self.rounds) == 1:
            return f"No round was made: {self.stopped}."
        count = "1 round" if len(self.rounds) == 2 else f"{len(self.rounds) - 1} rounds"
        before, after = percent(first.overall["mean"]), percent(last.overall["mean"])
        took = f"left the model at {after}" if before == after else f"took the model from {before} to {after}"
        text = (f"On {difference.n} held-out items, {count} in {self.seconds:.0f} s {took} right: "
                f"{difference_text(difference, difference.p_value)}")
        return f"{text}." + (f" Stopped: {self.stopped}." if self.stopped else "")

    def text(self, program: str = "workings") -> str:
        """The result, a table, and next commands, in words."""
        table = table_lines([("round", "learned", "never", "sometimes", "always", "right", "change, 95 % interval"),
                             *(round_.cells for round_ in self.rounds)])
        return "\n".join(["", self.sentence, "", *table, "",
                          "never, sometimes, always: questions by how many of their samples were correct",
                          f"page: {program} ui {self.out}", "", "Try next:",
                          f"  {program} verify {self.out}",
                          f"  {program} compare {self.rounds[0].run} {self.rounds[-1].run}",
                          "  the same command with more --rounds, or with --all-rounds after one that did not help"])


@dataclass(frozen=True, kw_only=True)
class ImproveRequest:
    """Settings of an improvement."""

    rounds: int
    """Maximum number of rounds after the start."""
    prompts: str
    """A file of items or of traces, or a shipped set: questions with known answers."""
    samples: int = 4
    """Completions per question and round."""
    temperature: float = 1.0
    """Sampling temperature."""
    selection: Selection = TWO_RIGHT_SAMPLES
    """Rules by which samples are kept."""
    all_rounds: bool = False
    """Continue after a round that did not help."""


def improve(recipe: str | LoadedRecipe, out: Path, overrides: Sequence[str] = (), *, request: ImproveRequest,
            say: Callable[[str], None] = lambda text: None) -> ImproveResult:
    """Improves a model by training on its own correct answers, in rounds, as long as a round helps.

    The same call resumes a killed one, with the same result; a call with more rounds continues a finished one.

    Args:
        recipe: learns from traces and has held-out items; each round trains it from the base weights.
        out: folder for all runs, samples and traces.
        overrides: ``key=value`` words.
        request: number of rounds, questions, settings of sampling and selection.
        say: prints progress and results.

    Raises `RequestError`, `Interrupted` if a signal asked to stop, and `RecordError` if a run failed.
    """
    loaded = with_choices(load_recipe(recipe, overrides))
    prompts = read_prompts(request.prompts)
    data = _checked_data(loaded, request, prompts)
    digests, file = dict(data.digests), Path(local_name(request.prompts)).expanduser()
    if file.is_file():  # otherwise it is a shipped set, which never changes
        digests["prompts"] = file_digest(file)
    recorded_request = _open(out, loaded, request, digests)
    # Against a second call, which would write the same rounds.
    lock = DirectoryLock(out)
    try:
        atomic.write_json(out / REQUEST, recorded_request)  # the number of rounds may have grown
        result = ImprovementSteps(out, loaded, request, prompts, data.traces, say).all()
        atomic.write_json(out / RESULT, result.to_json())
        return result
    finally:
        lock.release()


def _checked_data(loaded: LoadedRecipe, request: ImproveRequest, prompts: Sequence[Item]) -> RunData:
    """The recipe's own data, after all checks of the request that need no device."""
    recipe = loaded.recipe
    if recipe.algorithm.name != "sft":
        raise RequestError(f"improve does not take algorithm.name: {recipe.algorithm.name}",
                           "sft, because kept samples become traces", "workings train RECIPE for any other algorithm")
    data = find_data(loaded)
    if not data.items:
        raise RequestError("the recipe has no evaluation.items", "held-out items, by which rounds are compared",
                           "evaluation.items=ITEMS.jsonl")
    questions = {prompt_digest(item.prompt) for item in data.items}
    if shared := [item.id for item in prompts if prompt_digest(item.prompt) in questions]:
        raise RequestError(f"{len(shared)} of --prompts are also held-out items: {', '.join(shared[:3])}",
                           "questions that are not used for evaluation", "another --prompts")
    # Refuse a wrong request now: the first samples come after a whole training run.
    _sample_request(loaded, request, 1)
    return data


def _sample_request(loaded: LoadedRecipe, request: ImproveRequest, number: int) -> SampleRequest:
    return SampleRequest(selection=request.selection, settings=replace(
        settings_of(loaded.recipe), temperature=request.temperature, samples=request.samples,
        seed=loaded.recipe.seed + number))


def _open(out: Path, loaded: LoadedRecipe, request: ImproveRequest, digests: dict[str, str]) -> dict[str, Any]:
    """Makes the folder, or checks that the existing one has the same request and data. Returns the request."""
    recorded = {"recipe": loaded.resolved(), **asdict(request),
                **{f"contents of {name}": digest for name, digest in digests.items()}}
    path = out / REQUEST
    if path.is_file():
        before = read_json(path)
        if request.rounds < before["rounds"]:
            raise RequestError(f"--rounds {request.rounds} is below the {before['rounds']} that {out} was asked for",
                               "as many or more rounds", f"--rounds {before['rounds']}, or another --out")
        # The number of rounds may grow, and `all_rounds` may be switched on, but not off.
        may_differ = {"rounds"} if before["all_rounds"] else {"rounds", "all_rounds"}
        # Through JSON, like the file: a tuple would differ from the list that it was written as.
        now = loads(line(recorded))
        differing = sorted(key for key in {*before, *now} - may_differ if before.get(key) != now.get(key))
        if differing:
            raise RequestError(f"--out {out} belongs to another request: {', '.join(differing)}",
                               "the same request, to continue it, also with more --rounds, or another --out",
                               f"--out {out}-2")
    elif out.exists() and any(out.iterdir()):
        raise RequestError(f"--out {out} already exists", "a folder that does not exist yet", f"--out {out}-2")
    else:
        out.mkdir(parents=True, exist_ok=True)
        atomic.write_json(path, recorded)
    return recorded


@dataclass(frozen=True)
class ImprovementSteps:
    """The parts of an improvement: sampling and training of each round. Parts that are finished are skipped."""

    out: Path
    loaded: LoadedRecipe
    request: ImproveRequest
    prompts: list[Item]
    own_traces: list[Trace]
    say: Callable[[str], None]

    def run(self, number: int) -> Path:
        """The sealed run of a round; 0 is the start."""
        return self.out / "runs" / f"round_{number}"

    def all(self) -> ImproveResult:
        """Makes the start and every round, until one does not help."""
        rounds = [Round(number=0, run=self._train(self.run(0), []))]
        stopped = ""
        for number in range(1, self.request.rounds + 1):
            samples = self.out / "samples" / f"for_round_{number}"
            traces = self.out / "traces" / f"round_{number}.jsonl"
            if not self._sample(number, samples, traces):
                stopped = f"round {number}: none of the samples was kept"
                break
            run = self._train(self.run(number), self._words(traces))
            comparison = compare(rounds[-1].run, run)
            rounds.append(Round(number=number, run=run, samples=samples, against_before=comparison))
            self.say(f"round {number}: {comparison.sentence}")
            if comparison.verdict != "better" and not self.request.all_rounds:
                change = comparison.difference
                stopped = f"round {number} did not help: " + (
                    comparison.sentence if change is None else difference_text(change, change.p_value))
                break
        timings = self.out / TIMINGS_FILE
        seconds = float(sum(row["seconds"] for row in jsonl.read(timings)[0])) if timings.is_file() else 0.0
        return ImproveResult(out=self.out, rounds=tuple(rounds), stopped=stopped, seconds=seconds)

    def _sample(self, number: int, unit: Path, traces: Path) -> int:
        """Samples for a round and writes its training traces. Returns the number of kept samples."""
        if not (unit / SEAL).is_file():
            before = self.run(number - 1)
            self.say(f"round {number}: {self.request.samples} samples of each of {len(self.prompts):,} questions "
                     f"from {before.name}")
            # The batch size of an evaluation is small for an accelerator. On a CPU a larger one gains nothing.
            on_cpu = RunRecord.open(before).manifest.device.platform == "cpu"
            with self._timed(f"samples/{unit.name}"):
                sample_run(before, self.prompts, unit, say_planned_batch=None if on_cpu else self.say,
                           request=_sample_request(self.loaded, self.request, number))
        kept = self._fitting(SampleUnit.open(unit).kept)
        traces.parent.mkdir(exist_ok=True)
        # In every attempt, because the sealed unit determines the file.
        write_traces(traces, [*self.own_traces, *kept])
        self.say(f"round {number}: trained on {len(kept):,} samples and {len(self.own_traces):,} traces")
        return len(kept)

    def _fitting(self, kept: Sequence[Trace]) -> list[Trace]:
        """The samples that make a row. Others are too long: encoding gives them more tokens than sampling did."""
        config, tokenizer = self.loaded.recipe.data, Tokenizer.load(self.run(0) / TOKENIZER)
        template = ChatTemplate.for_config(config.template, tokenizer, config.reasoning)
        problems = dict(row_problems(kept, tokenizer, template, config))
        if problems:
            name, reason = next(iter(problems.items()))
            self.say(f"{len(problems):,} of {len(kept):,} kept samples make no row, such as {name}: {reason}")
        return [trace for trace in kept if trace.id not in problems]

    def _words(self, traces: Path) -> list[str]:
        """Overrides of a round's recipe, with paths relative to the recipe's folder, to keep the user's folders out."""
        files = {"data.traces": traces}
        if self.loaded.recipe.tokenizer == "train":
            # The start's tokenizer: each round with a new vocabulary would be another model.
            files["tokenizer"] = self.run(0) / TOKENIZER
        # Resolve both, because a link in one would make the relative path wrong.
        return [f"{key}={os.path.relpath(file.resolve(), self.loaded.base.resolve())}" for key, file in files.items()]

    def _train(self, run: Path, words: Sequence[str]) -> Path:
        """A sealed run with its evaluation. Raises as `train_to_the_end`."""
        if what_is_left(run) != "nothing":
            origin = self.loaded.origin.removeprefix("shipped:")
            # Loaded again, so that the record of the run names all words. The last one wins.
            recipe = replace(load_recipe(origin, [*self.loaded.overrides, *words]), base=self.loaded.base)
            with self._timed(f"runs/{run.name}"):
                train_to_the_end(recipe, run, self.say, again="run the same command")
        return run

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        # The seconds of a killed attempt are lost: a part is recorded when it is finished.
        started = time.perf_counter()
        yield
        with (self.out / TIMINGS_FILE).open("ab") as file:
            file.write(line({"part": part, "seconds": round(time.perf_counter() - started, 3)}))
