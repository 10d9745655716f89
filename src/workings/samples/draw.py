"""Draw completions of prompts and seal them, with those that are kept to learn from, as one unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.evaluation.run import generation_job, score_and_seal
from workings.evaluation.settings import EvaluationSettings
from workings.record.layout import SAMPLED
from workings.samples.pairs import PairRule
from workings.samples.selection import RIGHT_ONES, Selection
from workings.samples.unit import SampleUnit, write_files
from workings.scoring.items import Item

if TYPE_CHECKING:
    from workings.engines.session import ModelSession


@dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """What is drawn, and what becomes of it."""

    settings: EvaluationSettings
    """How many samples, temperature, seed, scoring, and the form that the model writes."""
    selection: Selection = RIGHT_ONES
    pairs: PairRule | None = None
    """None: no pairs are made."""


def sample(session: "ModelSession", items: Sequence[Item], out: Path, *, request: SampleRequest,
           made_from: str | None, facts: Mapping[str, Any] | None = None) -> SampleUnit:
    """Draw completions of all items, score them, keep some, and seal it all at ``out``.

    Sampling that was killed is continued by the same call; what is kept may be decided anew, for nothing is kept before
    all is drawn.

    Args:
        session: the model that draws.
        items: the prompts with their expected answers.
        out: where the unit will stand; must not exist.
        request: what is drawn, what is kept of it, and which pairs are made.
        made_from: root digest of the run whose checkpoint draws; None where there is no such run.
        facts: what else is known of the model (id, revision, checkpoint).

    Raises:
        RequestError: ``out`` exists, there are no items, or a setting or rule does not go with them.
    """
    request.selection.check(items, request.settings.form)
    work = generation_job(session, items, settings=request.settings, made_from=made_from, facts=facts)
    # `finish` runs over complete predictions and before the seal, which lists its files.
    score_and_seal(work, out, kind=SAMPLED,
                   finish=lambda folder: write_files(folder, request.selection, request.pairs))
    return SampleUnit.open(out)
