"""Evaluations of untrained models, each made once for all runs that are compared with it.

The unit is next to the runs, as `base-NAME-DIGEST`: the digest is of everything that decides its contents.
"""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.engines.session import ModelSession
from workings.errors import RecordError
from workings.evaluation.run import evaluate, generation_job
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import EvaluationRecord
from workings.record.digest import json_digest
from workings.scoring.items import Item

_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


def evaluate_base(session: ModelSession, items: Sequence[Item], folder: Path, *, make_state: Callable[[], State],
                  settings: EvaluationSettings, model: Mapping[str, Any], name: str) -> tuple[EvaluationRecord, str]:
    """The evaluation of an untrained model, from the cache or new; and a note if a damaged one was recomputed.

    The unit is in ``folder``, that of the runs. ``make_state`` makes the state to evaluate instead of the session's, if
    there is no cached evaluation. ``model`` is the identity of the weights: their digests, or shape and seed of random
    ones, and number formats. Raises `RequestError` if another process is making the unit, or as `evaluate`.
    """
    key = base_key(generation_job(session, items, settings=settings, made_from=None, facts=model).config)
    unit = folder / f"base-{_UNUSUAL.sub('-', name).strip('-.')[:60]}-{key}"
    record = EvaluationRecord(unit)
    note = ""
    if unit.exists():
        try:
            record.results()
            return record, ""
        except (OSError, RecordError) as error:
            note = f"{error}; recomputed"
        shutil.rmtree(unit)
    evaluate(replace(session, state=make_state()), items, unit, settings=settings, made_from=None, facts=model)
    return EvaluationRecord(unit), note


def base_key(config: Mapping[str, Any]) -> str:
    """The digest in the name of an untrained model's evaluation, from a complete `eval_config.json`."""
    engine, decoding = config["engine"], dict(config["decoding"])
    if decoding["temperature"] == 0:
        del decoding["seed"]  # does not affect greedy answers: runs with several seeds share their base
    return json_digest({
        "model": config["model"], "items": config["items"]["digest"], "tokenizer": config["tokenizer"]["digest"],
        "template": config["template"]["digest"], "engine": engine["name"],
        "platform": engine["platform"], "device": engine["device"],
        "scorer": [config["scorer"]["name"], config["scorer"]["version"]], "decoding": decoding,
        **{key: config[key] for key in ("extraction", "steps", "form", "aggregate", "limits")}})[:12]
