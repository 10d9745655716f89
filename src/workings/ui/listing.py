"""The list of runs: a row per run, from its manifest, its metrics and its evaluation."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.evaluation.scorecard import recorded_interval
from workings.evaluation.unit import DEFAULT_NAME, unit_paths
from workings.record import layout
from workings.record.metrics import pace
from workings.record.phase import Phase
from workings.record.values import is_absent
from workings.reports.run_table import learned_from
from workings.ui.folder import Folder
from workings.ui.verification_cache import Verified

HEADLINE_METRICS = (("reward", "Mean reward", "rollout"), ("kl_teacher", "Nats per token from the teacher", "rollout"),
                    ("margin", "Margin of pairs", "step"))
"""Metrics that are shown instead of the loss: key, name, and what a value is measured on."""
CURVE_POINTS = 40
"""Most values of the small curve in a row."""
State = Literal["running", "complete", "interrupted", "failed", "stopped", "unreadable"]


class RunRow(BaseModel):
    """A row of the list. What is not known is left out."""

    name: str = Field(description="Path below the folder; names the run in every other call")
    kind: Literal["run", "evaluation", "samples"]
    state: State
    problem: str = ""
    recipe: str = ""
    learned_from: str = Field(default="", description="Traces, pairs, rewards or a teacher, and the algorithm")
    model: str = ""
    engine: str = ""
    device: str = ""
    dtypes: str = ""
    reason: str = Field(default="", description="Why it ended before its last step")
    steps: int = 0
    planned_steps: int = Field(default=0, description="0 while unknown, because epochs are counted first")
    tokens: int = 0
    loss: float | None = Field(default=None, description="The log's loss of the last step: nats per "
                              "token when learning from traces, else the value of an objective")
    learning_rate: float | None = Field(default=None, description="Peak learning rate of the recipe")
    curve: list[float] = Field(default=[], description="The loss, or the metric shown instead, evenly over the steps")
    seconds_left: float | None = Field(default=None, description="While it runs: steps left times recent step time")
    started_at: str = ""
    accuracy: dict[str, Any] | None = Field(default=None, description="Name of the evaluation, share of correct "
                                            "answers, items, and the 95 % interval where there is one")
    samples: dict[str, int] | None = Field(default=None, description="Of a unit of samples: how many are kept of how "
                                           "many, of how many prompts")
    verified: Verified | None = None
    earlier_of: str = Field(default="", description="The run that resumed this interrupted one")
    base: str = Field(default="", description="The evaluation of its base model, next to it")
    base_accuracy: dict[str, Any] | None = None
    base_of: list[str] = Field(default=[], description="For such an evaluation: the runs with this base model")
    phase: str = Field(default="", description="What its process does now, if the log does not say it")


def run_rows(folder: Folder, verified: dict[str, Verified]) -> list[RunRow]:
    """Rows of all runs. ``verified`` are cached verdicts by the run's name."""
    phases = folder.phases()
    rows = [run_row(folder, path, verified, phases) for path in folder.runs()]
    names = {row.name for row in rows}
    _find_bases(folder, rows)
    for row in rows:
        # `train --resume` moves the earlier sealed attempt to this name.
        before, interrupted, number = row.name.rpartition(".interrupted-")
        if interrupted and number.isdigit() and before in names:
            row.earlier_of = before
    return rows


def _find_bases(folder: Folder, rows: list[RunRow]) -> None:
    """Connect each run with the evaluation of its base model, if that is in the same folder."""
    bases: dict[tuple[str, str], RunRow] = {}  # by folder and weights
    # Evaluations first.
    for row in sorted(rows, key=lambda row: row.kind != "evaluation"):
        weights = _base_weights(folder, row) if row.state != "unreadable" else ""
        key = (row.name.rpartition("/")[0], weights)
        if not weights:
            continue
        if row.kind == "evaluation":
            bases[key] = row
        elif row.kind == "run" and key in bases:
            row.base, row.base_accuracy = bases[key].name, bases[key].accuracy
            bases[key].base_of.append(row.name)


def _base_weights(folder: Folder, row: RunRow) -> str:
    """Identity of the weights that a run began with, or of an evaluated base model; empty if unknown."""
    run = folder.inside(row.name)
    try:
        if row.kind == "evaluation":
            model = folder.object(run / layout.EVALUATION_CONFIG)["model"]
            if model.get("step") != 0:
                return ""
            weights = model["weights"] if "weights" in model else [model["shape"], model["seed"]]
        else:
            weights = folder.object(run / layout.MANIFEST)["weight_digests"]
            if is_absent(weights):
                weights = [folder.object(run / layout.MODEL_SHAPE), folder.object(run / layout.CONFIG)["seed"]]
        return json.dumps(weights, sort_keys=True)
    except (RecordError, KeyError, TypeError, AttributeError):  # not sealed yet, or damaged
        return ""


def run_row(folder: Folder, path: Path, verified: dict[str, Verified], phases: Mapping[str, Phase]) -> RunRow:
    """The row of one run; ``phases`` are what processes do now, by the run's name."""
    name = folder.name(path)
    phase = phases[name].doing if name in phases else ""
    try:
        state, seal = folder.state(path), path / layout.SEAL
        is_readable = state in get_args(State)
        if path.name.endswith(layout.PARTIAL_SUFFIX):
            columns = _unsealed(folder, path)
        elif seal.is_file() and folder.object(seal).get("unit") == layout.SAMPLED:
            columns = _samples(folder, path)
        elif not (path / layout.MANIFEST).is_file():
            columns = {"kind": "evaluation", "accuracy": _accuracy(folder, path)}
        else:
            columns = _sealed(folder, path)
            is_readable = is_readable and seal.is_file()
        return RunRow(name=name, state=state if is_readable else "unreadable", verified=verified.get(name),
                      phase=phase, **columns)
    # A damaged record may hold any value; it must not break the list.
    except (RecordError, KeyError, TypeError, ValueError, AttributeError) as error:
        return RunRow(name=name, kind="run", state="unreadable", phase=phase,
                      problem=f"{type(error).__name__}: {error}"[:300])


def _samples(folder: Folder, path: Path) -> dict[str, Any]:
    counts, config = folder.object(path / layout.SELECTION)["counts"], folder.object(path / layout.EVALUATION_CONFIG)
    model = config["model"]
    return {"kind": "samples", "samples": {key: int(counts[key]) for key in ("kept", "samples", "prompts")},
            "model": str(model.get("run") or model.get("id") or ""), "engine": str(config["engine"].get("name", ""))}


def _of_recipe(folder: Folder, path: Path) -> dict[str, Any]:
    """Columns from a run's recipe and its first event, sealed or not."""
    config, events = folder.object(path / layout.CONFIG), folder.lines(path / layout.EVENTS)
    return {"kind": "run", "recipe": str(config["name"]), "engine": str(config["engine"]),
            "learned_from": learned_from(config, {}), "planned_steps": int(config["training"]["steps"]),
            "learning_rate": float(config["training"]["learning_rate"]),
            "started_at": str(events[0].get("time", "")) if events else ""}


def _sealed(folder: Folder, path: Path) -> dict[str, Any]:
    manifest, config, device = (folder.object(path / name) for name in (layout.MANIFEST, layout.CONFIG,
                                                                        layout.DEVICE_CHECKS))
    units = {unit.name: unit for unit in unit_paths(path)}
    unit = units.get(DEFAULT_NAME, next(iter(units.values()), None))
    return _of_recipe(folder, path) | folder.worked_out_of_log(path, _progress) | {
        "model": str(manifest["model_id"]), "learned_from": learned_from(config, manifest.get("facts", {})),
        "device": f"{device['count']} x {device['kind']}", "dtypes": dtypes_text(manifest["actual_dtypes"]),
        "reason": "" if manifest["status"] == "complete" else str(manifest["status_reason"]),
        "accuracy": _accuracy(folder, unit) if unit else None}


def _unsealed(folder: Folder, path: Path) -> dict[str, Any]:
    config = folder.object(path / layout.CONFIG)
    lines, model = folder.metrics(path), config["model"]
    shape = model.get("shape", "")
    now = pace(lines, int(config["training"]["steps"])) if folder.state(path) == "running" else None
    return _of_recipe(folder, path) | _progress(lines) | {
        "model": str(model.get("id", f"scratch:{shape.get('family', '') if isinstance(shape, dict) else shape}")),
        "device": str(config["device"]),
        "dtypes": dtypes_text(config["precision"]) if "precision" in config else "",
        "seconds_left": now.seconds_left if now else None}


def _progress(lines: list[dict[str, Any]]) -> dict[str, Any]:
    _, _, curve = headline_values(lines)
    if len(curve) > CURVE_POINTS:
        curve = [curve[round(number * (len(curve) - 1) / (CURVE_POINTS - 1))] for number in range(CURVE_POINTS)]
    return {"steps": int(lines[-1]["step"]) if lines else 0, "tokens": sum(int(line["tokens"]) for line in lines),
            "loss": float(lines[-1]["loss"]) if lines else None, "curve": curve}


def headline_values(lines: list[dict[str, Any]]) -> tuple[str, str, list[float]]:
    """The metric that describes a run best: its name, what a value is measured on (`step`), and its finite values."""
    for key, name, measured_on in HEADLINE_METRICS:
        values = [float(line[key]) for line in lines if _is_finite(line.get(key))]
        if values:
            return name, measured_on, values
    return "Training loss", "step", [float(line["loss"]) for line in lines if _is_finite(line["loss"])]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _accuracy(folder: Folder, unit: Path) -> dict[str, Any]:
    cell = folder.object(unit / layout.EVALUATION_SUMMARY)["scorecard"]["overall"]
    low, high = recorded_interval(cell)
    return {"unit": unit.name, "mean": float(cell["mean"]), "n": int(cell["n"]), "low": low, "high": high}


def dtypes_text(dtypes: dict[str, Any]) -> str:
    """Number formats of weights and arithmetic: `bf16`, or `fp32, computed in bf16`."""
    short = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
    stored, computed = (short.get(str(dtypes[key]), str(dtypes[key])) for key in ("parameters", "compute"))
    return stored if stored == computed else f"{stored}, computed in {computed}"
