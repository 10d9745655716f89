"""Evaluations of untrained models, made once: the base that many runs are compared with.

A cache is a folder of sealed evaluation units, each named by the digest of everything that decides its contents. A unit
is copied out of it whole; its sums are checked on the way, and one that does not match is made again and said so.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError, RequestError
from workings.evaluation.items import Item, items_digest
from workings.evaluation.own_scorer import scorer_version
from workings.evaluation.run import Progress, evaluate
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.units import EvaluationRecord
from workings.record import atomic
from workings.record.digest import bytes_digest, file_digest, json_digest
from workings.record.layout import SUMS, partial_path
from workings.record.seal import parse_sums

if TYPE_CHECKING:
    from workings.engines.base import Engine, State
    from workings.models.chat import ChatTemplate
    from workings.models.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class CachedEvaluation:
    """An evaluation at its place, and where it came from."""

    record: EvaluationRecord
    from_cache: bool
    note: str
    """What was wrong with a cached unit that had to be made again, or ""."""


def evaluate_base(engine: "Engine", state: "Callable[[], State]", tokenizer: "Tokenizer", template: "ChatTemplate",
                  items: Sequence[Item], out: Path, *, settings: EvaluationSettings, model: Mapping[str, Any],
                  cache: Path, progress: Progress | None = None) -> CachedEvaluation:
    """Evaluate an untrained model at ``out``, from the cache where it was done before.

    Args:
        state: makes the state to ask; called only where there is nothing in the cache.
        out: beside the runs and not in one, where an evaluation stands for that run's own model; must not exist.
        model: what decides the weights: their digests, or shape and seed of random ones.
        cache: folder of cached evaluations; made where it does not exist.

    Raises:
        RequestError: ``out`` exists, or as `workings.evaluation.run.evaluate`.
    """
    if out.exists():
        raise RequestError(f"{out}, which exists", "a new directory; evaluations are never overwritten")
    device = engine.describe()
    name, version = scorer_version(settings.scorer)
    kept = cache / json_digest({
        "model": dict(model), "items": items_digest(items), "tokenizer": tokenizer.digest,
        "template": bytes_digest(template.source.encode()), "engine": engine.name, "versions": dict(device.versions),
        "platform": device.platform, "device": device.kind, "scorer": [name, version], "decoding": settings.decoding(),
        "extraction": settings.extraction(), "form": settings.form, "aggregate": settings.aggregate,
        "second_opinion": settings.second_opinion, "limits": settings.limits()})
    note = ""
    if kept.exists():
        note = _damage(kept)
        if not note:
            _copy(kept, out)
            return CachedEvaluation(record=EvaluationRecord(out), from_cache=True, note="")
        shutil.rmtree(kept)
    evaluate(engine, state(), tokenizer, template, items, out, settings=settings, made_from=None, facts=model,
             progress=progress)
    _copy(out, kept)
    return CachedEvaluation(record=EvaluationRecord(out), from_cache=False, note=note)


def _copy(source: Path, target: Path) -> None:
    """Copy a sealed unit; it appears at ``target`` whole or not at all."""
    partial = partial_path(target)
    shutil.rmtree(partial, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, partial)
    atomic.sync_tree(partial)
    partial.rename(target)
    atomic.sync_directory(target.parent)


def _damage(unit: Path) -> str:
    """What is wrong with a cached unit, or ""."""
    try:
        sums = parse_sums((unit / SUMS).read_bytes())
        wrong = [name for name, digest in sums.items() if file_digest(unit / name) != digest]
    except (OSError, RecordError) as error:
        return f"cached evaluation {unit.name} cannot be read ({error}); made again"
    return f"cached evaluation {unit.name} was changed ({', '.join(wrong)}); made again" if wrong else ""
