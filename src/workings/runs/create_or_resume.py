"""Where a run begins: in a new directory, or where a killed, interrupted or failed one stopped."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.batches import Position
from workings.errors import RequestError
from workings.record import jsonl
from workings.record.canonical import loads, read_json
from workings.record.checkpoints import Checkpoint
from workings.record.layout import (
    ANNOUNCED,
    CONFIG,
    DEVICE_CHECKS,
    EVALUATION_CONFIG,
    EVENTS,
    MODEL_SHAPE,
    OVERRIDES,
    PARTIAL_SUFFIX,
    RECIPE_EVALUATION,
    SEAL,
)
from workings.record.reader import RunRecord
from workings.record.values import Absent, now
from workings.record.writer import RunWriter
from workings.training.loop import Progress

SHOWN = 6
"""Differences that an error names."""
PLACES = {"batch.micro_batch", "mesh.fsdp", "mesh.tp"}
"""Keys of a recipe that say where rows lie, and nothing about the course of training but by their product."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """An open run directory, and where training goes on."""

    writer: RunWriter
    checkpoint: Checkpoint | None
    progress: Progress
    resumed: bool
    first_started_at: str
    """When the first attempt began."""
    resumes: int
    """How many times the run was resumed, this time included."""


def create_run(out: Path, attempt: str) -> Start:
    """A new run directory; ``attempt``: digest of its line in the list of attempts.

    Raises `RequestError` if there is a run directory already.
    """
    writer = RunWriter.create(out)
    started_at = now()
    writer.event("started", attempt=attempt)
    return Start(writer=writer, checkpoint=None, progress=Progress(step=0, position=Position()), resumed=False,
                 first_started_at=started_at, resumes=0)


def resume_run(out: Path, request: dict[str, dict[str, Any]], mesh: Mapping[str, int], attempt: str) -> Start:
    """Go on with a run that did not finish, after its newest complete checkpoint.

    A checkpoint does not know how many devices wrote it, so another number may go on with it, as long as a micro batch
    over all of them has the same rows: then every batch is the same.

    Args:
        out: the run directory.
        request: contents of `config/resolved.json` and `data/digests.json` as they are asked for now.
        mesh: sizes of the axes now.
        attempt: digest of this start's line in the list of attempts.

    Raises:
        RequestError: there is nothing to resume, or something else was asked for before.
        RecordError: the metrics that the checkpoint stands on are missing.
    """
    # Before it is renamed: a request that is refused leaves a sealed run where it stands.
    if (out / SEAL).is_file() and RunRecord.open(out).status != "complete":
        _refuse_other_request([out], request, mesh)
    writer = RunWriter.resume(out)
    try:
        origin = writer.resumed_from
        # Before metrics are cut: a request that is refused loses no line.
        moved = _refuse_other_request([writer.directory, *([out.with_name(origin["name"])] if origin else [])],
                                      request, mesh)
        checkpoint, skipped = writer.checkpoints.latest_valid()
        step = 0 if checkpoint is None else checkpoint.step
        # The steps after the checkpoint are taken again, and a step may have one line only.
        facts = writer.truncate_metrics(step)
        writer.event("resumed", attempt=attempt, from_step=step, damaged_checkpoints=skipped, **facts,
                     **({"moved": moved} if moved else {}))
    # Also on Ctrl-C: a lock that this process keeps would refuse its next attempt.
    except BaseException:
        writer.close()
        raise
    # Events are carried from attempt to attempt, so they know the first start and every resumption.
    events = jsonl.read(writer.path(EVENTS))[0]
    return Start(writer=writer, checkpoint=checkpoint, progress=progress_from(checkpoint), resumed=True,
                 # An attempt that was killed before its first event is not known of; then this one is the first.
                 first_started_at=next((event["time"] for event in events if event["kind"] == "started"), now()),
                 resumes=sum(event["kind"] == "resumed" for event in events))


def evaluation_is_missing(out: Path) -> bool:
    """Whether there is a sealed, complete run that was stopped before all answers that it announced were sealed.

    Those are its own and, where its recipe compares with the untrained model, that one's.
    """
    if not (out / SEAL).is_file():
        return False
    run = RunRecord.open(out)
    if run.status != "complete" or not any(event["kind"] == ANNOUNCED for event in run.events()):
        return False
    return not (out / RECIPE_EVALUATION).exists() or (
        run.manifest.config_snapshot.get("evaluation", {}).get("base") is True and not has_base(run))


# The keys of an evaluation's configuration that say whose answers they are, and what made the record.
_WHOM = frozenset(("model", "source", "made_from", "software"))


def has_base(run: RunRecord) -> bool:
    """Whether an evaluation of the model that a run began with, on the run's items, is sealed beside the run."""
    asked = _asked(run.path / RECIPE_EVALUATION)
    digests = run.manifest.weight_digests
    origin = ({"seed": run.manifest.seed, "shape": read_json(run.path / MODEL_SHAPE)} if isinstance(digests, Absent)
              else {"weights": dict(digests)}) | {"dtypes": dict(run.manifest.actual_dtypes)}
    # By both files: a run may be called base-something, too.
    for path in run.path.parent.glob(f"base-*/{EVALUATION_CONFIG}"):
        unit = path.parent
        if unit.name.endswith(PARTIAL_SUFFIX) or not (unit / SEAL).is_file():
            continue
        model = read_json(path).get("model", {})
        if _asked(unit) == asked and {key: model.get(key) for key in origin} == origin:
            return True
    return False


def _asked(unit: Path) -> dict[str, Any]:
    """What was asked and how it is judged, without whom; as `workings.evaluation.cache` names what it keeps."""
    config = read_json(unit / EVALUATION_CONFIG)
    decoding = {**config["decoding"], **({"seed": 0} if config["decoding"].get("temperature") == 0 else {})}
    engine = {key: value for key, value in config["engine"].items() if key != "devices"}
    return {key: value for key, value in config.items() if key not in _WHOM} | {"decoding": decoding, "engine": engine}


def same_request(out: Path, request: dict[str, dict[str, Any]]) -> RunRecord:
    """A sealed run. Raises `RequestError` where it was asked for something else (as `resume_run`)."""
    for relative, values in request.items():
        _refuse(_said(_differences(loads((out / relative).read_bytes()), values, "")), [])
    return RunRecord.open(out)


def progress_facts(progress: Progress) -> dict[str, Any]:
    """What a checkpoint's `state.json` keeps beside the engine's tensors."""
    return {"position": progress.position.to_json(), "tokens": progress.tokens,
            "supervised_tokens": progress.supervised_tokens, "training_seconds": progress.seconds}


def progress_from(checkpoint: Checkpoint | None) -> Progress:
    """Where a checkpoint stands; the beginning if there is none."""
    if checkpoint is None:
        return Progress(step=0, position=Position())
    facts = checkpoint.facts
    return Progress(step=checkpoint.step, position=Position.from_json(facts["position"]), tokens=facts["tokens"],
                    supervised_tokens=facts["supervised_tokens"], seconds=facts["training_seconds"])


def _refuse_other_request(folders: Sequence[Path], request: dict[str, dict[str, Any]],
                          mesh: Mapping[str, int]) -> list[str]:
    """A resumed run must be asked for the same as before; every differing key is named.

    Args:
        folders: the run, and the sealed one that it goes on from.
        request: as in `resume_run`.
        mesh: as in `resume_run`.

    Returns:
        What differs and may, because the same rows make a micro batch of all devices.
    """
    moved: list[str] = []
    for relative, values in request.items():
        before = _before(folders, relative)
        if before is None:  # killed before the request was written down: nothing can differ from it
            continue
        differing = _differences(before, values, "")
        said = _said(differing)
        # A run that was killed early may have no device checks; then every difference is refused.
        meshes = (_before(folders, DEVICE_CHECKS) or {}).get("mesh", {})
        if relative == CONFIG and "fsdp" in meshes and {key for key, _, _ in differing} <= PLACES:
            _refuse_other_rows(_rows(before, meshes), _rows(values, mesh), int(mesh["fsdp"]))
            moved += said + ([f"mesh: {meshes} before, {dict(mesh)} now"] if meshes != dict(mesh) else [])
        else:
            _refuse(said, (_before(folders, OVERRIDES) or {}).get("overrides", []) if relative == CONFIG else [])
    return moved


def _said(differing: Sequence[tuple[str, Any, Any]]) -> list[str]:
    return [f"{key}: {old!r} before, {new!r} now" for key, old, new in differing]


def _refuse(said: Sequence[str], overrides: Sequence[str]) -> None:
    """Raise `RequestError` where something differs; ``overrides`` are the words that the run was started with."""
    if said:
        more = [f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
        again = f"resume with what it was started with: {shlex.join(overrides)}" if overrides else (
            "resume with the recipe it was started with")
        raise RequestError("; ".join([*said[:SHOWN], *more]),
                           "the same recipe and data as the run that is resumed; a reward's file counts as data",
                           f"{again}; or start a new run with another --out")


def _before(folders: Sequence[Path], relative: str) -> dict[str, Any] | None:
    """A file of the run as it was, or of the sealed one that it goes on from; None where neither has it."""
    places = [folder / relative for folder in folders]
    values: dict[str, Any] | None = next((loads(place.read_bytes()) for place in places if place.is_file()), None)
    return values


def _rows(config: Mapping[str, Any], mesh: Mapping[str, int]) -> int:
    """Rows of a micro batch over all devices."""
    return int(config["batch"]["micro_batch"]) * int(mesh["fsdp"])


def _refuse_other_rows(before: int, now: int, fsdp: int) -> None:
    if before != now:
        raise RequestError(f"micro batches of {now} rows over all devices; the run had {before}",
                           "as many rows as before, or every batch from here on would be another one",
                           f"batch.micro_batch={before // fsdp}" if before % fsdp == 0 else
                           f"as many devices as divide {before} rows")


def _differences(before: Any, now: Any, prefix: str) -> list[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [one for key in sorted(before.keys() | now.keys())
                for one in _differences(before.get(key, "(absent)"), now.get(key, "(absent)"), f"{prefix}{key}.")]
    return [] if before == now else [(prefix.rstrip("."), before, now)]

