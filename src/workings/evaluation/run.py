"""An evaluation from start to seal: ask, extract, score, count, seal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.errors import RequestError
from workings.evaluation.external import ExternalPredictions
from workings.evaluation.predictions import UnscoredCompletion, prediction_line, sanitised, summarize
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings, is_aggregate
from workings.evaluation.unit import EvaluationWriter, refuse_existing
from workings.record.digest import bytes_digest, file_digest
from workings.record.number_text import percent
from workings.record.progress import slow_operation
from workings.scoring.items import Item, items_digest
from workings.scoring.judge import Judgement
from workings.scoring.judge_endpoint import recorded_scorer, scoring_by
from workings.scoring.worker_pool import ScoringProcess

if TYPE_CHECKING:
    from workings.engines.base import Completion, Engine, Sampler
    from workings.engines.session import ModelSession

EXTERNAL_CHUNK = 1024
"""Items that are scored between two writes to the disk."""

ITEMS_AT_A_TIME = "items_at_a_time"
"""Key of `eval_config.json`: items whose completions are generated together."""
LEAST_ROWS = 4
"""Completions that are generated together at least: a CPU takes hardly longer for them than for one."""


def evaluate(session: "ModelSession", items: Sequence[Item], out: Path, *, settings: EvaluationSettings,
             made_from: str | None, facts: Mapping[str, Any] | None = None) -> Scorecard:
    """Ask a model all items and seal the answers as an evaluation unit at ``out``.

    An evaluation that was killed is continued by the same call and ends the same. ``made_from`` is the root digest of
    the run whose checkpoint is asked, if there is one; ``facts`` of the model (id, revision, checkpoint) are recorded.
    Raises `RequestError` if ``out`` exists, there are no items, or a setting or scorer is wrong.
    """
    return score_and_seal(generation_job(session, items, settings=settings, made_from=made_from, facts=facts), out)


@dataclass(frozen=True, kw_only=True)
class GenerationJob:
    """An evaluation's configuration, and a function that answers a chunk of its items."""

    config: dict[str, Any]
    """``eval_config.json``."""
    chunks: Sequence[Sequence[Item]]
    """What is answered together."""
    answer: Callable[[Sequence[Item]], list[UnscoredCompletion]]
    """The completions of a chunk."""
    settings: EvaluationSettings
    samples: int
    """Completions of each item."""
    problems: dict[str, Any] = field(default_factory=dict)
    """Problems of the file that the completions come from."""


def generation_job(session: "ModelSession", items: Sequence[Item], *, settings: EvaluationSettings,
                   made_from: str | None, facts: Mapping[str, Any] | None = None) -> GenerationJob:
    """The job that generates a model's completions of all items. Arguments and errors are those of `evaluate`."""
    if settings.temperature > 0:
        that_samples(session.engine, settings.temperature)  # refused before anything is written
    _check_samples(settings.aggregate, settings.samples)
    config = unit_config(items, settings, source={"kind": "generated"}, made_from=made_from)
    # What decides an answer is here: a killed evaluation is continued only by a request with equal values.
    config |= {"decoding": settings.decoding(), **session_facts(session, facts)}
    config[ITEMS_AT_A_TIME] = size = items_at_a_time(settings, session.tokens_at_a_time)
    return GenerationJob(config=config, settings=settings, samples=settings.samples,
                         chunks=[items[start:start + size] for start in range(0, len(items), size)],
                         answer=lambda chunk: generate_batch(session, chunk, settings))


def session_facts(session: "ModelSession", facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an evaluation records of the model that answers; ``facts`` as of `evaluate`."""
    engine, template, device = session.engine, session.template, session.engine.describe()
    return {
        "template": {"name": template.name, "digest": bytes_digest(template.source.encode())},
        "tokenizer": {"digest": session.tokenizer.digest},
        "engine": {"name": engine.name, "platform": device.platform, "device": device.kind, "devices": device.count},
        "model": dict(facts) if facts else {"absent": "not described by the caller"},
    }


def items_at_a_time(settings: EvaluationSettings, tokens: int = 0) -> int:
    """Items of a chunk; ``tokens`` as `ModelSession.tokens_at_a_time`."""
    # A batch counts prompts, and an item's samples stay together.
    size = max(1, settings.batch_size // settings.samples)
    by_tokens = max(LEAST_ROWS, tokens // settings.max_new_tokens) // settings.samples
    return min(size, max(1, by_tokens)) if tokens else size


def evaluate_predictions(predictions: Path, items: Sequence[Item], out: Path, *,
                         settings: EvaluationSettings | None = None) -> Scorecard:
    """Score completions from elsewhere (JSON lines with ``id`` and ``completion``), without any engine.

    Missing, double, unknown and unreadable lines are named in the summary; items without one clear text count as
    errors with a score of 0. Raises `RequestError` if the file answers no item, or as `evaluate`.
    """
    settings = settings or EvaluationSettings()
    external = ExternalPredictions(predictions, items)
    _check_samples(settings.aggregate, external.samples)
    if (name := external.double) and not is_aggregate(settings.aggregate, 1):
        raise RequestError(f"predictions: {predictions} has several lines with the id {name}, and aggregate "
                           f"{settings.aggregate} counts the samples of each id",
                           "one line for each id and `sample`, numbered from 0",
                           "number the samples of this id, or --aggregate mean, which counts it as an error")
    # By its name and digest: the folder it is in may name a person.
    source = {"kind": "predictions", "file": predictions.name, "digest": file_digest(predictions),
              "samples": external.samples}
    unknown = {"absent": "not recorded in predictions from elsewhere"}
    config = unit_config(items, settings, source=source, made_from=None)
    config |= dict.fromkeys(("decoding", "template", "tokenizer", "engine", "model"), unknown)
    chunks = [items[start:start + EXTERNAL_CHUNK] for start in range(0, len(items), EXTERNAL_CHUNK)]
    return score_and_seal(GenerationJob(
        config=config, chunks=chunks, settings=settings, samples=external.samples,
        answer=lambda chunk: [answered for item in chunk for answered in external.completions_of(item)],
        problems=external.problems), out)


def score_and_seal(work: GenerationJob, out: Path, *, kind: str = "eval",
                   finish: Callable[[Path], None] = lambda folder: None) -> Scorecard:
    """Have every completion scored and recorded, and seal them at ``out``.

    What an earlier attempt has recorded is not answered again. ``kind`` is one of
    `workings.record.layout.EVALUATION_UNITS`; ``finish`` writes further files into the unit's folder. Raises
    `RequestError` as `EvaluationWriter`.
    """
    refuse_existing(out)
    total = sum(map(len, work.chunks))
    # The scorer first: one that cannot be loaded leaves no files.
    with (slow_operation(f"answering {total:,} items") as report_progress,
          scoring_by(work.settings) as process,
          EvaluationWriter(out, work.config) as unit):
        done = unit.finished_chunks(list(map(len, work.chunks)), work.samples)
        items, tokens = sum(map(len, work.chunks[:done])), 0
        # Lines are appended here and not in the pool's thread, so that one thread alone writes the file.
        for chunk, lines in zip(work.chunks[done:], _pipeline(work, done, process), strict=True):
            unit.append(lines)
            items += len(chunk)
            tokens += sum(line["completion_tokens"] for line in lines if type(line.get("completion_tokens")) is int)
            report_progress.reaches(items, total, f"items ({percent(items / total, 0)})"
                                    + (f", {tokens:,} tokens" if tokens else ""))
        # From the file and not from memory: chunks of an earlier attempt count, and it follows from what is sealed.
        scorecard, summary = summarize(unit.recorded_samples(), work.settings.aggregate, work.problems)
        finish(unit.partial)
        unit.seal(summary, kind)
    return scorecard


def _pipeline(work: GenerationJob, done: int, scoring: ScoringProcess) -> Iterator[list[dict[str, Any]]]:
    """Lines of one chunk after the other; while one is scored, the next is answered."""
    def score(answers: Sequence[UnscoredCompletion]) -> list[dict[str, Any]]:
        # Completions with a problem are not scored.
        left = iter(scoring.judge([(a.item, a.text, a.truncated) for a in answers if not a.problem]))
        return [prediction_line(answered, Judgement() if answered.problem else next(left), work.settings.form)
                for answered in answers]

    waiting: Future[list[dict[str, Any]]] | None = None
    # One thread is enough: it only waits for the scoring process, which takes one chunk at a time.
    with ThreadPoolExecutor(1) as pool:
        try:
            for chunk in work.chunks[done:]:
                try:
                    answers = [sanitised(answered, work.settings) for answered in work.answer(chunk)]
                finally:
                    if waiting is not None:  # also after an error: its answers have cost as much as these
                        yield waiting.result()
                waiting = pool.submit(score, answers)
            if waiting is not None:
                yield waiting.result()
        except BaseException:
            scoring.cancel()  # leaving the pool waits for its thread
            raise


def unit_config(items: Sequence[Item], settings: EvaluationSettings, *, source: dict[str, Any],
                made_from: str | None) -> dict[str, Any]:
    """``eval_config.json`` without what decided the answers. Raises `RequestError` without items."""
    if not items:
        raise RequestError("there are no items", "at least one item")
    return {
        "schema": "eval_config/1",
        "items": {"count": len(items), "digest": items_digest(items)},
        "scorer": recorded_scorer(settings.scorer),
        "extraction": settings.extraction(),
        "steps": settings.steps(),
        "form": settings.form,
        "aggregate": settings.aggregate,
        "limits": settings.limits(),
        "source": source,
        "made_from": made_from if made_from is not None else {"absent": "not made from a sealed run"},
        "software": {"workings": version("workings")},
    }


def _check_samples(aggregate: str, samples: int) -> None:
    if not is_aggregate(aggregate, samples):
        raise RequestError(f"aggregate {aggregate} needs more than {samples} sample{'s' if samples > 1 else ''} each",
                           "at least as many samples as K")


def generate_batch(session: "ModelSession", items: Sequence[Item],
                   settings: EvaluationSettings) -> list[UnscoredCompletion]:
    """Completions of some items, all samples of an item together.

    The text has every token of the model, including control tokens and Gemma 4's channel, except the stop token.
    """
    seeds = [sample_seed(settings.seed, item.id, sample) if settings.temperature else -1
             for item in items for sample in range(settings.samples)]
    prompt_of_item = [session.template.prompt_ids(item.prompt, item.history) for item in items]
    prompts = [prompt for prompt in prompt_of_item for _ in range(settings.samples)]
    completions: list[Completion] = []
    # Memory is planned for this batch size, and one item may have more samples.
    for start in range(0, len(prompts), settings.batch_size):
        batch = slice(start, start + settings.batch_size)
        completions += complete(session, prompts[batch], seeds[batch], temperature=settings.temperature,
                                max_new_tokens=settings.max_new_tokens)
    tokenizer = session.tokenizer
    texts = [tokenizer.decode(completion.tokens) for completion in completions]
    # Tokenize again, because words may spell a control token.
    control = [session.template.forges_turns(ids) for ids in tokenizer.encode_batch(texts)]
    return [UnscoredCompletion(item=items[index // settings.samples], sample=index % settings.samples,
                               text=texts[index], finish_reason=completion.finish_reason,
                               tokens=len(completion.tokens), seed=seeds[index], control_tokens=control[index])
            for index, completion in enumerate(completions)]


def complete(session: "ModelSession", prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float,
             max_new_tokens: int) -> "Sequence[Completion]":
    """One completion of each prompt; at temperature 0 the greedy ones. Raises `RequestError` as `that_samples`."""
    stop_ids = session.template.stop_ids
    if temperature == 0:
        return session.engine.generate(session.state, prompts, max_new_tokens=max_new_tokens, stop_ids=stop_ids)
    return that_samples(session.engine, temperature).sample(
        session.state, prompts, max_new_tokens=max_new_tokens, stop_ids=stop_ids, temperature=temperature, seeds=seeds)


def that_samples(engine: "Engine", temperature: float) -> "Sampler":
    """The engine as a sampler. Raises `RequestError` for an engine that only answers greedily."""
    from workings.engines.base import Sampler

    if not isinstance(engine, Sampler):
        raise RequestError(f"engine {engine.name} does not sample, and the temperature is {temperature:g}",
                           "an engine that samples, or greedy decoding", "--temperature 0 --samples 1")
    return engine


def sample_seed(seed: int, item_id: str, sample: int) -> int:
    """A seed below 2**32 for one sample of one item, from SHA-256, independent of order and batch size."""
    # The id is last, because only it may contain a slash: texts are unique.
    return int(bytes_digest(f"{seed}/{sample}/{item_id}".encode())[:8], 16)
