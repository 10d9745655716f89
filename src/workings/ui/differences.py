"""Differences between runs: recipe, data, environment, code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from workings.errors import RecordError
from workings.record.layout import CONFIG, ENVIRONMENT, MANIFEST
from workings.ui.folder import Folder
from workings.ui.number_format import flat_texts

Group = Literal["recipe", "data", "environment", "code"]
CODE_FIELDS = ("commit_sha", "dirty_diff_digest", "workings_version", "engine_distribution")
DEVICE_FIELDS = ("hardware", "actual_device", "actual_dtypes", "mesh")


class Difference(BaseModel):
    """One thing that is not the same in all runs."""

    group: Group
    key: str
    values: list[str]


def differences(folder: Folder, runs: Sequence[Path]) -> list[Difference]:
    """Everything recorded that differs, a run without a record of it saying so."""
    rows: list[Difference] = []
    for group in ("recipe", "data", "environment", "code"):
        sides = [_facts(folder, run, group) for run in runs]
        for key in sorted(set().union(*sides)):
            values = [side.get(key, "not recorded") for side in sides]
            # The recipe's name differs in nearly all runs and decides nothing.
            if len(set(values)) > 1 and (group, key) != ("recipe", "name"):
                rows.append(Difference(group=group, key=key, values=values))
    return rows


def _facts(folder: Folder, run: Path, group: str) -> dict[str, str]:
    def read(name: str) -> dict[str, Any]:
        try:
            return folder.object(run / name)
        except RecordError:
            return {}

    if group == "recipe":
        return flat_texts(read(CONFIG))
    if group == "environment":
        # The time of recording is never the same twice.
        environment = {key: value for key, value in flat_texts(read(ENVIRONMENT)).items() if not key.startswith("time")}
        return environment | flat_texts({key: value for key, value in read(MANIFEST).items() if key in DEVICE_FIELDS})
    manifest = read(MANIFEST)
    if group == "data":
        return flat_texts(manifest.get("data_digests", {}) | {"model": manifest.get("model_id", "not recorded")})
    return flat_texts({key: value for key, value in manifest.items() if key in CODE_FIELDS})
