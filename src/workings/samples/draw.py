"""Makes sealed units of samples: by sampling, and by selecting again from a unit by other rules."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.traces import STYLES
from workings.engines.session import ModelSession
from workings.errors import RecordError, RequestError
from workings.evaluation.run import generation_job, score_and_seal
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import refuse_existing
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.layout import KEPT, PAIRS, SAMPLED, SEAL, SELECTION, SUMS
from workings.record.seal import parse_seal, parse_sums, seal_unit
from workings.record.storage import read_plain
from workings.samples.selection import RIGHT_SAMPLES, PairRule, Selection
from workings.samples.unit import SampleUnit, write_files
from workings.scoring.items import Item

SELECTED_FILES = (KEPT, PAIRS, SELECTION)
"""Files of a unit that follow from its rules; all others follow from the samples."""

@dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """Settings of sampling and selection. Raises `RequestError` for a form of answers that traces cannot have."""

    settings: EvaluationSettings
    """Number of samples, temperature, seed, scoring, and the form of the model's answers."""
    selection: Selection = RIGHT_SAMPLES
    pairs: PairRule | None = None
    """Rules of preference pairs; None: no pairs."""

    def __post_init__(self) -> None:
        if self.settings.form not in STYLES:
            raise RequestError(f"samples in the form {self.settings.form} cannot become traces",
                               f"one of {', '.join(STYLES)}: kept samples are traces, split into steps and answer",
                               f"--form {STYLES[0]}")


def sample(session: ModelSession, items: Sequence[Item], out: Path, *, request: SampleRequest,
           made_from: str | None, facts: Mapping[str, Any] | None = None) -> SampleUnit:
    """Samples completions of all items, scores them, keeps some, and seals everything at ``out``.

    As `workings.evaluation.run.evaluate`; killed sampling may be continued with other rules of selection.
    """
    work = generation_job(session, items, settings=request.settings, made_from=made_from, facts=facts)
    score_and_seal(work, out, kind=SAMPLED, finish=lambda folder: write_files(folder, request.selection, request.pairs))
    return SampleUnit.open(out)


def reselect(unit: Path, out: Path, selection: Selection, pairs: PairRule | None = None) -> SampleUnit:
    """Seals a copy of a unit's completions at ``out``, which must not exist, with the selection of these rules.

    Raises `RequestError` if a rule does not fit the samples, and `RecordError` if a file differs from its seal.
    """
    source = SampleUnit.open(unit)
    refuse_existing(out)
    with atomic.new_folder(out, "make") as partial:
        for name, digest in parse_sums(read_plain(source.path / SUMS)).items():
            if name not in SELECTED_FILES:
                shutil.copyfile(source.path / name, partial / name)
                # Of the copy, so that the compared bytes are the sealed ones.
                if file_digest(partial / name) != digest:
                    raise RecordError(f"{source.path / name} is not the file that was sealed")
        write_files(partial, selection, pairs)
        origin = parse_seal(read_plain(source.path / SEAL))["made_from"]
        seal_unit(partial, SAMPLED, "complete", origin if isinstance(origin, str) else None)
    return SampleUnit.open(out)
