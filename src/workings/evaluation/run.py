"""An evaluation from the items to the sealed unit: answer, extract, score, summarize, seal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.engines.base import Completion, Engine, Sampler
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.external import ExternalPredictions
from workings.evaluation.predictions import UnscoredCompletion, prediction_line, read_predictions, sanitised, summarize
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings, is_aggregate
from workings.evaluation.unit import EvaluationWriter, refuse_existing
from workings.record.digest import bytes_digest, file_digest
from workings.record.number_text import percent
from workings.record.progress import slow_operation
from workings.scoring.form import STEPS_VERSION
from workings.scoring.items import Item, items_digest
from workings.scoring.judge import Judgement
from workings.scoring.judge_endpoint import recorded_scorer, scoring_by
from workings.scoring.worker_pool import ScoringProcess

EXTERNAL_CHUNK = 1024
"""Items whose existing completions are scored between two writes to the disk."""
ITEMS_AT_A_TIME = "items_at_a_time"
"""Key of `eval_config.json`: number of items whose completions are generated together."""
LEAST_ROWS = 4
"""Completions that are generated together at least; a CPU needs hardly longer for them than for one."""


def evaluate(session: ModelSession, items: Sequence[Item], out: Path, *, settings: EvaluationSettings,
             made_from: str | None, facts: Mapping[str, Any] | None = None) -> Scorecard:
    """Let a model answer all items, and seal the scored answers as an evaluation unit at ``out``.

    The same call continues an evaluation that was killed, with the same result. ``made_from`` is the root digest of the
    model's run, if it has one; ``facts`` about the model (id, revision, checkpoint) are recorded. Raises `RequestError`
    if ``out`` exists, there are no items, or a setting or scorer is wrong.
    """
    return score_and_seal(generation_job(session, items, settings=settings, made_from=made_from, facts=facts), out)


@dataclass(frozen=True, kw_only=True)
class GenerationJob:
    """An evaluation's configuration, and a function that answers its items chunk by chunk."""

    config: dict[str, Any]
    """``eval_config.json``."""
    chunks: Sequence[Sequence[Item]]
    """Items that are answered together."""
    answer: Callable[[Sequence[Item]], list[UnscoredCompletion]]
    """Makes the completions of a chunk."""
    settings: EvaluationSettings
    samples: int
    """Completions of each item."""
    problems: dict[str, Any] = field(default_factory=dict)
    """Problems of the file that the completions come from."""


def generation_job(session: ModelSession, items: Sequence[Item], *, settings: EvaluationSettings,
                   made_from: str | None, facts: Mapping[str, Any] | None = None) -> GenerationJob:
    """The job that generates a model's completions of all items. Arguments and errors are those of `evaluate`."""
    if settings.temperature > 0:
        that_samples(session.engine, settings.temperature)  # refuse before anything is written
    _check_samples(settings.aggregate, settings.samples)
    # Everything that decides an answer: a killed evaluation is continued only by a request with the same values.
    config = unit_config(items, settings, source={"kind": "generated"}, made_from=made_from)
    config |= {"decoding": settings.decoding(), **session_facts(session, facts)}
    config[ITEMS_AT_A_TIME] = size = items_at_a_time(settings, session.tokens_at_a_time)
    return GenerationJob(config=config, settings=settings, samples=settings.samples,
                         chunks=[items[start:start + size] for start in range(0, len(items), size)],
                         answer=lambda chunk: generate_batch(session, chunk, settings))


def session_facts(session: ModelSession, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an evaluation records about the model that answers; ``facts`` as for `evaluate`."""
    engine, template, device = session.engine, session.template, session.engine.describe()
    return {
        "template": {"name": template.name, "digest": bytes_digest(template.source.encode())},
        "tokenizer": {"digest": session.tokenizer.digest},
        "engine": {"name": engine.name, "platform": device.platform, "device": device.kind, "devices": device.count},
        "model": dict(facts) if facts else {"absent": "not described by the caller"}}


def items_at_a_time(settings: EvaluationSettings, tokens: int = 0) -> int:
    """Items of a chunk, whose samples are generated together; ``tokens`` is `ModelSession.tokens_at_a_time`."""
    completions = settings.batch_size
    if tokens:
        completions = min(completions, max(LEAST_ROWS, tokens // settings.max_new_tokens))
    return max(1, completions // settings.samples)


def evaluate_predictions(predictions: Path, items: Sequence[Item], out: Path, *,
                         settings: EvaluationSettings | None = None) -> Scorecard:
    """Score existing completions (JSON lines with ``id`` and ``completion``) and seal them; needs no engine.

    The summary names missing, double, unknown and unreadable lines; an item without a clear text is an error and scores
    0. Raises `RequestError` if the file answers no item, or as `evaluate`.
    """
    settings = settings or EvaluationSettings()
    external = ExternalPredictions(predictions, items)
    _check_samples(settings.aggregate, external.samples)
    if external.double and not is_aggregate(settings.aggregate, 1):
        raise RequestError(f"predictions: {predictions} has several lines with the id {external.double}, and aggregate "
                           f"{settings.aggregate} counts the samples of each id",
                           "one line for each id and `sample`, numbered from 0",
                           "number the samples of this id, or --aggregate mean, which counts it as an error")
    # Without the file's folder, which may name a person.
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
    """Answer, score and record all items that an earlier attempt has not recorded, and seal the unit at ``out``.

    ``kind`` is one of `workings.record.layout.EVALUATION_UNITS`; ``finish`` writes further files into the unit's
    folder. Raises `RequestError` as `EvaluationWriter`.
    """
    refuse_existing(out)
    total = sum(map(len, work.chunks))
    with (slow_operation(f"answering {total:,} items") as report_progress,
          scoring_by(work.settings) as process,  # first: a scorer that cannot be loaded leaves no files
          EvaluationWriter(out, work.config) as unit):
        done = unit.finished_chunks(list(map(len, work.chunks)), work.samples)
        answered, tokens = sum(map(len, work.chunks[:done])), 0
        for chunk, lines in zip(work.chunks[done:], _pipeline(work, done, process), strict=True):
            unit.append(lines)
            answered += len(chunk)
            tokens += sum(line["completion_tokens"] for line in lines if type(line.get("completion_tokens")) is int)
            tokens_text = f", {tokens:,} tokens" if tokens else ""
            report_progress.reaches(answered, total, f"items ({percent(answered / total, 0)}){tokens_text}")
        # From the file, which also has the chunks of an earlier attempt.
        scorecard, summary = summarize(read_predictions(unit.predictions), work.settings.aggregate, work.problems)
        finish(unit.partial)
        unit.seal(summary, kind)
    return scorecard


def _pipeline(work: GenerationJob, done: int, scoring: ScoringProcess) -> Iterator[list[dict[str, Any]]]:
    """Lines of one chunk after the other; while one chunk is scored, the next one is answered."""
    def score(answers: Sequence[UnscoredCompletion]) -> list[dict[str, Any]]:
        to_score = [(answered.item, answered.text, answered.truncated) for answered in answers if not answered.problem]
        judgements = iter(scoring.judge(to_score))
        return [prediction_line(answered, Judgement() if answered.problem else next(judgements), work.settings.form)
                for answered in answers]

    earlier: Future[list[dict[str, Any]]] | None = None
    # A single thread, because it only waits for the scoring process, which takes one chunk at a time.
    with ThreadPoolExecutor(1) as pool:
        try:
            for chunk in work.chunks[done:]:
                try:
                    answers = [sanitised(answered, work.settings) for answered in work.answer(chunk)]
                finally:
                    if earlier is not None:  # also after an error, which must not lose the chunk before
                        yield earlier.result()
                earlier = pool.submit(score, answers)
            if earlier is not None:
                yield earlier.result()
        except BaseException:
            scoring.cancel()  # leaving the pool waits for its thread
            raise


def unit_config(items: Sequence[Item], settings: EvaluationSettings, *, source: dict[str, Any],
                made_from: str | None) -> dict[str, Any]:
    """``eval_config.json`` without the sections about the model. Raises `RequestError` if there are no items."""
    if not items:
        raise RequestError("there are no items", "at least one item")
    return {
        "schema": "eval_config/1", "items": {"count": len(items), "digest": items_digest(items)},
        "scorer": recorded_scorer(settings.scorer), "extraction": settings.extraction(),
        "steps": {"version": STEPS_VERSION}, "form": settings.form, "aggregate": settings.aggregate,
        "limits": settings.limits(), "source": source, "software": {"workings": version("workings")},
        "made_from": made_from if made_from is not None else {"absent": "not made from a sealed run"}}


def _check_samples(aggregate: str, samples: int) -> None:
    if not is_aggregate(aggregate, samples):
        raise RequestError(f"aggregate {aggregate} needs more than {samples} sample{'s' if samples > 1 else ''} each",
                           "at least as many samples as K")


def generate_batch(session: ModelSession, items: Sequence[Item],
                   settings: EvaluationSettings) -> list[UnscoredCompletion]:
    """Completions of some items, all samples of an item together; their texts include control tokens."""
    asked = [(item, sample) for item in items for sample in range(settings.samples)]
    seeds = [sample_seed(settings.seed, item.id, sample) if settings.temperature else -1 for item, sample in asked]
    prompt_of_item = [session.template.prompt_ids(item.prompt, item.history) for item in items]
    prompts = [prompt for prompt in prompt_of_item for _ in range(settings.samples)]
    completions: list[Completion] = []
    for start in range(0, len(prompts), settings.batch_size):
        batch = slice(start, start + settings.batch_size)
        completions += complete(session, prompts[batch], seeds[batch], temperature=settings.temperature,
                                max_new_tokens=settings.max_new_tokens)
    tokenizer = session.tokenizer
    texts = [tokenizer.decode(completion.tokens) for completion in completions]
    # Texts are tokenized again, because words may spell a control token.
    control = [session.template.forges_turns(ids) for ids in tokenizer.encode_batch(texts)]
    return [UnscoredCompletion(item=item, sample=sample, text=text, finish_reason=completion.finish_reason,
                               tokens=len(completion.tokens), seed=seed, control_tokens=has_control_tokens)
            for (item, sample), seed, completion, text, has_control_tokens in zip(
                asked, seeds, completions, texts, control, strict=True)]


def complete(session: ModelSession, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float,
             max_new_tokens: int) -> Sequence[Completion]:
    """One completion of each prompt, greedy at temperature 0. Raises `RequestError` as `that_samples`."""
    stop_ids = session.template.stop_ids
    if temperature == 0:
        return session.engine.generate(session.state, prompts, max_new_tokens=max_new_tokens, stop_ids=stop_ids)
    return that_samples(session.engine, temperature).sample(
        session.state, prompts, max_new_tokens=max_new_tokens, stop_ids=stop_ids, temperature=temperature, seeds=seeds)


def that_samples(engine: Engine, temperature: float) -> Sampler:
    """The engine, if it can sample. Raises `RequestError` if it only decodes greedily."""
    if not isinstance(engine, Sampler):
        raise RequestError(f"engine {engine.name} does not sample, and the temperature is {temperature:g}",
                           "an engine that samples, or greedy decoding", "--temperature 0 --samples 1")
    return engine


def sample_seed(seed: int, item_id: str, sample: int) -> int:
    """Seed (below 2**32) of one sample of an item: a hash, so that it does not depend on order and batch size."""
    # With the id last, which may contain a slash, different samples have different texts.
    return int(bytes_digest(f"{seed}/{sample}/{item_id}".encode())[:8], 16)
