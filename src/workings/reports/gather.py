"""Reads the values of a report page from run directories and evaluation units."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.evaluation.predictions import read_predictions
from workings.evaluation.unit import EvaluationRecord, find_units, unit_paths
from workings.evidence.readmes import SHIPPED, train_command
from workings.record.canonical import read_json
from workings.record.layout import MANIFEST, MEASURED, OVERRIDES, PLAN, PREDICTIONS, RECIPE
from workings.record.manifest import RunManifest
from workings.record.memory_use import MemoryUse, memory_use
from workings.record.reader import RunRecord
from workings.record.values import leaves
from workings.reports.reinforcement import logged


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run (or standalone evaluation) as the page shows it."""

    name: str
    path: Path
    color: int
    manifest: RunManifest | None
    root: str
    evaluation: EvaluationRecord | None = None
    memory: MemoryUse | None = None
    """Planned and measured memory; None if it was not recorded."""
    lines: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def uses_rewards(self) -> bool:
        """Whether it learned from rewards or pairs, so that its loss is the value of an objective."""
        return bool(self.lines and logged(self.lines[0]))

    @property
    def scorecard(self) -> dict[str, Any]:
        """The scorecard; empty if the run was not evaluated."""
        return dict(self.evaluation.summary["scorecard"]) if self.evaluation else {}


def view_run(path: Path, color: int, unit: EvaluationRecord | None = None) -> RunView:
    """Read one run directory, or one evaluation that is standalone."""
    if not (path / MANIFEST).is_file():
        record = unit or find_units(path)[0]
        return RunView(name=record.name, path=path, color=color, manifest=None, root=record.root, evaluation=record)
    run = RunRecord.open(path)
    return RunView(
        name=path.resolve().name, path=path, color=color, manifest=run.manifest, root=run.root, lines=run.metrics(),
        memory=memory_use(read_json(path / PLAN), read_json(path / MEASURED)) if (path / PLAN).is_file() else None,
        evaluation=unit or next(map(EvaluationRecord, unit_paths(path)), None))


def bare_view(path: Path) -> RunView:
    """A sealed run without its log and evaluation: what `commands` needs. Raises `RecordError`, `RequestError`."""
    run = RunRecord.open(path)
    return RunView(name=path.resolve().name, path=path, color=0, manifest=run.manifest, root=run.root)


def sample_pairs(a: EvaluationRecord, b: EvaluationRecord, item_ids: list[str]) -> list[dict[str, Any]]:
    """The requested items with the completions of both sides as `answers`, in the requested order."""
    pairs: dict[str, list[dict[str, Any]]] = {}
    for record in (a, b):
        for samples in read_predictions(record.path / PREDICTIONS):
            if samples[0]["id"] in item_ids:
                pairs.setdefault(samples[0]["id"], []).append(samples[0])
    return [pairs[name][0] | {"answers": [_answer(sample) for sample in pairs[name]]}
            for name in item_ids if len(pairs.get(name, [])) == 2]


def configuration_rows(runs: list[RunView]) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """Recipe keys with equal values in all runs, and the others with each run's value."""
    configs = [dict(leaves(run.manifest.config)) for run in runs if run.manifest is not None]
    flat = [{key: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
             for key, value in config.items()} for config in configs]
    if len(flat) < 2:
        return [], []
    same, different = [], []
    for key in sorted(set().union(*flat)):
        values = [config.get(key, "—") for config in flat]
        if len(set(values)) == 1:
            same.append((key, values[0]))
        elif key != "name":
            different.append((key, values))
    return same, different


def commands(runs: list[RunView]) -> list[tuple[str, str]]:
    """Commands that reproduce and check the run, as (purpose, command)."""
    lines = []
    for run in runs:
        quoted_path = shlex.quote(str(run.path))
        if run.manifest is not None:
            lines.append((f"Train {run.name} again", train_again(run.path)))
        lines.append((f"Verify {run.name}", f"workings verify {quoted_path} --expect-root {run.root}"))
    if len(runs) > 1:
        lines.append(("Compare", f"workings compare {shlex.quote(str(runs[0].path))} {shlex.quote(str(runs[1].path))}"))
    return lines


def train_again(run: Path) -> str:
    """The command that trains a run again from the current folder: recipe, overrides, files."""
    request, recipe = _request(run), recipe_of(run)
    is_shipped = str(request.get("origin", "")).startswith(SHIPPED)
    return train_command(recipe, f"{run}-again", request, RunRecord.open(run).manifest,
                         move=lambda name: os.path.normpath(run / name),
                         recipe_stays=not is_shipped and recipe != str(run / RECIPE))


def recipe_of(run: Path) -> str:
    """The recipe of a run as a word of `workings train`: a shipped one by its name, else its file.

    The file at its original place, below the current folder or next to the runs; else the run's copy.
    """
    request = _request(run)
    base, origin = request.get("base"), str(request.get("origin", ""))
    if origin.startswith(SHIPPED):
        return origin.removeprefix(SHIPPED)
    name = Path(origin).name
    # Quickstart and packs have runs and recipes side by side.
    near = [run.parent.parent / "recipes" / name]
    if isinstance(base, str):
        # By the path's text, not resolved: in a pack links represent runs.
        original = Path(os.path.normpath(run / base / name))
        if ".." not in original.parts:
            near.append(original)
    return str(next((path for path in near if path.is_file()), run / RECIPE))


def _request(run: Path) -> dict[str, Any]:
    """Recipe and overrides as they were typed; empty where they are not recorded."""
    return dict(read_json(run / OVERRIDES)) if (run / OVERRIDES).is_file() else {}


def _answer(sample: dict[str, Any]) -> dict[str, Any]:
    completion, extracted = sample["completion"], sample["extracted"]
    return {"text": completion if isinstance(completion, str) else "", "right": sample["score"] == 1.0,
            "missing": completion["absent"] if isinstance(completion, dict) else "",
            "extracted": extracted if isinstance(extracted, str) else "nothing", "rule": sample["rule"]}
