"""Licences of the contents of a pack: software, base model, data."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workings.config.families import known_families
from workings.errors import RecordError
from workings.models.registry import find_family
from workings.record.canonical import loads
from workings.record.digest import file_digest
from workings.record.layout import OVERRIDES
from workings.record.manifest import CONVERTED_FROM, DRAWN_FROM
from workings.record.reader import RunRecord
from workings.record.values import Absent

SCHEMA = "licences/1"
_DATA_KEYS = (("data", "traces"), ("evaluation", "traces"), ("evaluation", "items"))


def licences(runs: Iterable[RunRecord]) -> dict[str, Any]:
    """The contents of `licences.json`."""
    return {"schema": SCHEMA,
            "software": {"name": "workings", "licence": "Apache-2.0", "files": ["LICENSE", "NOTICE"]},
            "runs": {run.path.resolve().name: {"model": model_facts(run), "data": _data(run)} for run in runs}}


def data_manifests(run: RunRecord) -> dict[str, bytes]:
    """`manifest.json` files next to the run's data files, which are recognized by digest."""
    manifests = {}
    for file in data_files(run):
        manifest = file.parent / "manifest.json"
        if manifest.is_file():
            # Named by content, so that runs that share their data share one file in the pack.
            manifests[f"data/{file_digest(manifest)[:16]}.json"] = manifest.read_bytes()
    return manifests


def sample_data(run: RunRecord) -> dict[str, bytes]:
    """The training file of a run that was trained on samples, by its name in a pack; empty for other runs.

    It proves that the training data are the kept samples.

    Raises:
        RecordError: the file is no longer at the recipe's path.
    """
    if DRAWN_FROM not in run.manifest.facts:
        return {}
    digest = run.manifest.data_digests["traces"]
    for path in data_files(run):
        # By its digest and not its name: of several data files only one is the traces.
        if file_digest(path) == digest:
            return {f"data/{digest[:16]}.jsonl": path.read_bytes()}
    raise RecordError(f"{run.path}: the traces that it learned from are not where its recipe names them "
                      f"({run.manifest.config.get('data', {}).get('traces')})")


def data_files(run: RunRecord) -> list[Path]:
    """The data files that the recipe names, if they are unchanged; others are known by digest only."""
    digests = set(run.manifest.data_digests.values())
    # A recipe names its data relative to itself; where its place is not recorded, the usual ones are tried.
    base = loads((run.path / OVERRIDES).read_bytes()).get("base") if (run.path / OVERRIDES).is_file() else None
    recorded = [run.path.resolve() / base] if isinstance(base, str) else []
    bases = [*recorded, run.path.resolve().parent.parent / "recipes", run.path.resolve().parent.parent,
             run.path.resolve().parent]
    names = {str(run.manifest.config.get(section, {}).get(key, "")) for section, key in _DATA_KEYS}
    paths = {(base / name).resolve() for base in bases for name in names if name and (base / name).is_file()}
    # Only files with a recorded digest: a file of the same name may have been replaced since.
    return sorted(path for path in paths if file_digest(path) in digests)


def model_facts(run: RunRecord) -> dict[str, Any]:
    """Identity and licence of the model that a run began with."""
    manifest = run.manifest
    if isinstance(manifest.weight_digests, Absent):
        return {"id": manifest.model_id, "licence": {"absent": "random weights, made by the run itself"}}
    origin = manifest.facts.get(CONVERTED_FROM)
    if isinstance(origin, dict) and isinstance(origin.get("licence"), str):
        return {"id": manifest.model_id, "licence": origin["licence"]}
    family = manifest.architecture
    known = find_family(family).licence if family in known_families() else ""
    return {"id": manifest.model_id,
            "licence": known or {"absent": "not known here: see the page that the weights came from"}}


def _data(run: RunRecord) -> dict[str, Any]:
    """Counts of the licences in the traces or items of each file, by its digest."""
    by_digest: dict[str, Any] = {}
    for path in data_files(run):
        # Files of other formats are listed without counts.
        rows = [json.loads(row) for row in path.read_bytes().splitlines()] if path.suffix == ".jsonl" else []
        counts = Counter(str(row.get("licence") or "not named") for row in rows if isinstance(row, dict))
        by_digest[file_digest(path)] = dict(sorted(counts.items()))
    return by_digest or {"absent": "the data are not at the recipe's path; their digests are in the manifest"}
