"""Samples completions of prompts and seals them, with those that are kept for training, as one unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.evaluation.run import generation_job, score_and_seal
from workings.evaluation.settings import EvaluationSettings
from workings.record.layout import SAMPLED
from workings.samples.pairs import PairRule
from workings.samples.selection import RIGHT_SAMPLES, Selection
from workings.samples.unit import SampleUnit, write_files
from workings.scoring.items import Item

if TYPE_CHECKING:
    from workings.engines.session import ModelSession


@dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """Settings of sampling and selection."""

    settings: EvaluationSettings
    """Number of samples, temperature, seed, scoring, and the form of the model's answers."""
    selection: Selection = RIGHT_SAMPLES
    pairs: PairRule | None = None
    """Rules of preference pairs; None: no pairs."""


def sample(session: "ModelSession", items: Sequence[Item], out: Path, *, request: SampleRequest,
           made_from: str | None, facts: Mapping[str, Any] | None = None) -> SampleUnit:
    """Samples completions of all items, scores them, keeps some, and seals everything at ``out``.

    Killed sampling is continued by the same call, also with other rules of selection, because samples are selected at
    the end.

    Args:
        session: the model.
        items: the prompts with their expected answers.
        out: path of the unit; must not exist.
        request: settings of sampling and selection.
        made_from: root digest of the model's run; None without a run.
        facts: further facts about the model (id, revision, checkpoint).

    Raises:
        RequestError: ``out`` exists, there are no items, or a setting or rule does not fit them.
    """
    request.selection.check(request.settings.form)
    work = generation_job(session, items, settings=request.settings, made_from=made_from, facts=facts)
    # `finish` runs over complete predictions and before the seal, which lists its files.
    score_and_seal(work, out, kind=SAMPLED, finish=lambda folder: write_files(folder, request.selection, request.pairs))
    return SampleUnit.open(out)
