"""Finds the data of runs (files, manifests, samples) and the licence of their base model."""

from pathlib import Path
from typing import Any

from workings.config.families import known_families
from workings.errors import RecordError
from workings.inputs.resolve import recorded_bases
from workings.models.registry import find_family
from workings.record.digest import file_digest
from workings.record.layout import OVERRIDES
from workings.record.manifest import CONVERTED_FROM, DRAWN_FROM
from workings.record.reader import RunRecord
from workings.record.values import Absent

_DATA_KEYS = (("data", "traces"), ("evaluation", "traces"), ("evaluation", "items"))


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

    Raises `RecordError` if the file is no longer at the recipe's path.
    """
    if DRAWN_FROM not in run.manifest.facts:
        return {}
    digest = run.manifest.data_digests["traces"]
    for path in data_files(run):
        if file_digest(path) == digest:
            return {f"data/{digest[:16]}.jsonl": path.read_bytes()}
    raise RecordError(f"{run.path}: the traces that it learned from are not where its recipe names them "
                      f"({run.manifest.config.get('data', {}).get('traces')})")


def data_files(run: RunRecord) -> list[Path]:
    """The data files that the recipe names, if they are unchanged; others are known by digest only."""
    digests = set(run.manifest.data_digests.values())
    # A run that only a recorder wrote has no overrides.
    bases = recorded_bases(run) if (run.path / OVERRIDES).is_file() else [*run.path.resolve().parents[:2]]
    bases.append(run.path.resolve().parent.parent / "recipes")
    names = {str(run.manifest.config.get(section, {}).get(key, "")) for section, key in _DATA_KEYS}
    paths = {(base / name).resolve() for base in bases for name in names if name and (base / name).is_file()}
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
