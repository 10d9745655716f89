"""Choose once more among samples that were drawn: the same completions and scores, kept by other rules."""

import shutil
from pathlib import Path

from workings.errors import RecordError, RequestError
from workings.evaluation.unit import refuse_existing
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.layout import KEPT, PAIRS, SAMPLED, SEAL, SELECTION, SUMS, partial_unit_path
from workings.record.lock import DirectoryLock
from workings.record.seal import parse_seal, parse_sums, seal_unit
from workings.record.untrusted_files import read_plain
from workings.samples.pairs import PairRule
from workings.samples.selection import Selection
from workings.samples.unit import SampleUnit, write_files

CHOSEN = (KEPT, PAIRS, SELECTION)
"""Files of a unit of samples that follow from its rules; all others are what was drawn."""


def reselect(unit: Path, out: Path, selection: Selection, pairs: PairRule | None = None) -> SampleUnit:
    """Seal a copy of a unit's completions at ``out``, with what these rules keep of them.

    Args:
        unit: a sealed unit of samples; it stays as it is.
        out: where the new one will stand; must not exist.
        selection: what is kept.
        pairs: which pairs are made; None: none.

    Raises:
        RequestError: no unit of samples, ``out`` exists, or a rule does not go with the samples.
        RecordError: a file of the unit is not the one that was sealed.
    """
    drawn = SampleUnit.open(unit)
    refuse_existing(out)
    partial = partial_unit_path(out)
    try:
        partial.mkdir(parents=True)
    except FileExistsError:  # sampling that was interrupted keeps there what it drew
        raise RequestError(f"--out {out}, beside which {partial} stands unfinished", "another --out",
                           f"--out {out}-2, or remove {partial}") from None
    lock = DirectoryLock(partial)
    try:
        for name, digest in parse_sums(read_plain(drawn.path / SUMS)).items():
            if name not in CHOSEN:
                shutil.copyfile(drawn.path / name, partial / name)
                if file_digest(partial / name) != digest:
                    raise RecordError(f"{drawn.path / name} is not the file that was sealed")
        write_files(partial, selection, pairs)
        origin = parse_seal(read_plain(drawn.path / SEAL))["made_from"]
        seal_unit(partial, SAMPLED, "complete", origin if isinstance(origin, str) else None)
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(out)
        atomic.sync_directory(out.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        lock.release()
    return SampleUnit.open(out)
