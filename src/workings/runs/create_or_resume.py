"""Names and opens a run directory: a new one, or that of a killed, interrupted or failed run after its checkpoint."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.data.batches import Position
from workings.distributed.process_group import differing
from workings.errors import RequestError
from workings.evaluation.cache import base_key
from workings.hardware.device import row_devices
from workings.inputs.resolve import RANDOM
from workings.record import jsonl
from workings.record.canonical import loads, read_json
from workings.record.checkpoints import Checkpoint, CheckpointStore
from workings.record.layout import (
    ANNOUNCED,
    CHECKPOINTS,
    CONFIG,
    DATA_DIGESTS,
    DEVICE_CHECKS,
    EVALUATION_CONFIG,
    EVENTS,
    MODEL_SHAPE,
    OVERRIDES,
    PARTIAL_SUFFIX,
    RECIPE_EVALUATION,
    SEAL,
    partial_path,
)
from workings.record.reader import RunRecord
from workings.record.values import Absent
from workings.record.writer import RunWriter
from workings.training.loop import Progress

MAX_DIFFERENCES_SHOWN = 6
LAYOUT_KEYS = {"batch.micro_batch", "mesh.fsdp", "mesh.tp", "mesh.replicate"}
"""Recipe keys that only distribute rows over devices; training depends only on their product."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """An open run directory with its progress."""

    writer: RunWriter
    checkpoint: Checkpoint | None
    progress: Progress
    resumed: bool


def create_run(out: Path, attempt: str) -> Start:
    """Creates a run directory; ``attempt``: digest of its line in the list of attempts.

    Raises `RequestError` if the directory exists.
    """
    writer = RunWriter.create(out)
    writer.event("started", attempt=attempt)
    return Start(writer=writer, checkpoint=None, progress=Progress(step=0, position=Position()), resumed=False)


def load_to_resume(recipe: RecipeLike, overrides: Overrides, out: Path, say: Callable[[str], object]) -> LoadedRecipe:
    """`load_recipe` for a run to resume: without overrides it uses and reports the recorded ones."""
    if not overrides and not isinstance(recipe, LoadedRecipe):
        recorded = (_before([partial_path(out), out], OVERRIDES) or {}).get("overrides", [])
        if recorded:
            say(f"resume     with the run's original overrides: {shlex.join(recorded)}")
            return load_recipe(recipe, recorded, recorded=True)
    return load_recipe(recipe, overrides)


def resume_run(out: Path, request: dict[str, dict[str, Any]], mesh: Mapping[str, int], attempt: str) -> Start:
    """Opens the directory of a run that did not finish, after its newest complete checkpoint.

    A checkpoint does not depend on the number of devices that wrote it. Another number may resume it if a micro batch
    over all devices has the same rows, so that every batch is the same.

    Args:
        out: the run directory.
        request: contents of `config/resolved.json` and `data/digests.json` of this attempt.
        mesh: sizes of the axes of this attempt.
        attempt: digest of this start's line in the list of attempts.

    Raises:
        RequestError: there is nothing to resume, or the request differs from the run's.
        RecordError: metrics before the checkpoint are missing.
    """
    # Before renaming, so that a refused request leaves a sealed run in place.
    if (out / SEAL).is_file() and RunRecord.open(out).status != "complete":
        refuse_other_request([out], request, mesh)
    writer = RunWriter.resume(out)
    try:
        origin = writer.resumed_from
        # Before truncating metrics, so that a refused request loses no line.
        moved = refuse_other_request([writer.directory, *([out.with_name(origin["name"])] if origin else [])],
                                      request, mesh)
        checkpoint, skipped = writer.checkpoints.latest_valid()
        step = 0 if checkpoint is None else checkpoint.step
        # Steps after the checkpoint are repeated, and a step has one line.
        facts = writer.truncate_metrics(step)
        # All attempts write to the same events, so the first start and every resumption are there.
        # An attempt that was killed before its first event left no trace; then this one is the first.
        resumed = any(event["kind"] == "started" for event in jsonl.read(writer.path(EVENTS))[0])
        if resumed:
            writer.event("resumed", attempt=attempt, from_step=step, damaged_checkpoints=skipped, **facts,
                         **({"moved": moved} if moved else {}))
        else:
            writer.event("started", attempt=attempt)
    # Also on Ctrl-C: a remaining lock would block the next attempt of this process.
    except BaseException:
        writer.close()
        raise
    return Start(writer=writer, checkpoint=checkpoint, progress=progress_from(checkpoint), resumed=resumed)


def evaluation_is_missing(out: Path) -> bool:
    """Whether a sealed, complete run was stopped before all evaluations that it announced were sealed.

    These are its own and, if its recipe compares with the untrained model, that of the untrained model.
    """
    if not (out / SEAL).is_file():
        return False
    run = RunRecord.open(out)
    # The run announces its evaluations, so that one without any does not look unfinished.
    if run.status != "complete" or not any(event["kind"] == ANNOUNCED for event in run.events()):
        return False
    return not (out / RECIPE_EVALUATION).exists() or (
        run.manifest.config.get("evaluation", {}).get("base") is True and not has_base(run))


def what_is_left(out: Path) -> Literal["start", "resume", "nothing"]:
    """What `--auto-resume` does with a run directory: an evaluation that is missing is resumed, too."""
    if partial_path(out).is_dir():
        return "resume"
    if not (out / SEAL).is_file():
        return "start"
    return "nothing" if RunRecord.open(out).status == "complete" and not evaluation_is_missing(out) else "resume"


def untrained_model(run: RunRecord) -> dict[str, Any]:
    """Identity of the untrained model of a sealed run, as the evaluation of that model records it."""
    manifest, digests = run.manifest, run.manifest.weight_digests
    origin: dict[str, Any] = {"revision": str(manifest.model_revision), "weights": digests}
    if isinstance(digests, Absent):
        origin = {"revision": RANDOM, "shape": read_json(run.path / MODEL_SHAPE), "seed": manifest.seed}
    return {"id": manifest.model_id, "step": 0, "dtypes": dict(manifest.actual_dtypes), **origin}


def has_base(run: RunRecord) -> bool:
    """Whether an evaluation of the untrained model on the run's items is sealed next to the run."""
    key = base_key(read_json(run.path / RECIPE_EVALUATION / EVALUATION_CONFIG) | {"model": untrained_model(run)})
    return any((unit / SEAL).is_file() for unit in run.path.parent.glob(f"base-*-{key}"))


def same_request(out: Path, request: dict[str, dict[str, Any]]) -> RunRecord:
    """Opens a sealed run. Raises `RequestError` if its request was another one (as `resume_run`)."""
    for relative, values in request.items():
        _refuse(_texts(differing(loads((out / relative).read_bytes()), values)), [])
    return RunRecord.open(out)


def progress_facts(progress: Progress) -> dict[str, Any]:
    """Contents of a checkpoint's `state.json`."""
    return {"position": progress.position.to_json(), "tokens": progress.tokens,
            "supervised_tokens": progress.supervised_tokens, "training_seconds": progress.seconds}


def progress_from(checkpoint: Checkpoint | None) -> Progress:
    """Progress of a checkpoint; that of a new run if none exists."""
    if checkpoint is None:
        return Progress(step=0, position=Position())
    facts = checkpoint.facts
    return Progress(step=checkpoint.step, position=Position.from_json(facts["position"]), tokens=facts["tokens"],
                    supervised_tokens=facts["supervised_tokens"], seconds=facts["training_seconds"])


def refuse_other_request(folders: Sequence[Path], request: dict[str, dict[str, Any]],
                          mesh: Mapping[str, int]) -> list[str]:
    """Raises `RequestError` if the request of a resumed run differs; every differing key is named.

    Args:
        folders: the run, and the sealed one that it continues.
        request: as in `resume_run`.
        mesh: as in `resume_run`.

    Returns:
        Allowed differences: another distribution of the same rows over devices.
    """
    moved: list[str] = []
    for relative, values in request.items():
        before = _before(folders, relative)
        if before is None:  # killed before the request was written: there is nothing to compare with
            continue
        differences = [*differing(before, values)]
        texts = _texts(differences)
        # The recipe was compared before, so a reward that differs has another file.
        if relative == DATA_DIGESTS and {key for key, _, _ in differences} == {"rewards"}:
            anew = "start a new run with another --out"
            if has_checkpoint(folders[0]):
                final = folders[0].with_name(folders[0].name.removesuffix(PARTIAL_SUFFIX))
                # Only a sealed run can be exported, and a stopped one is sealed.
                first = "" if final == folders[0] else (
                    "put the file back, resume, and stop with Ctrl-C, which seals the run; then ")
                anew += f"; or, to keep what this one has learned: {first}{begin_with_weights(final)}"
            raise RequestError(f"the file of a reward has changed since the run began ({texts[0]})",
                               "the original file, because all steps of a run need the same rewards", anew)
        # A run that was killed early may have no device checks; then every difference is refused.
        meshes = (_before(folders, DEVICE_CHECKS) or {}).get("mesh", {})
        if relative == CONFIG and "fsdp" in meshes and {key for key, _, _ in differences} <= LAYOUT_KEYS:
            had, has = (int(config["batch"]["micro_batch"]) * row_devices(axes)
                        for config, axes in ((before, meshes), (values, mesh)))
            if had != has:
                raise RequestError(f"micro batches have {has} rows over all devices, and the run had {had}",
                                   "as many rows as before, so that all batches stay the same",
                                   f"batch.micro_batch={had // row_devices(mesh)}" if had % row_devices(mesh) == 0 else
                                   f"a number of devices that divides {had} rows")
            moved += texts + ([f"mesh: {meshes} before, {dict(mesh)} now"] if meshes != dict(mesh) else [])
        else:
            _refuse(texts, (_before(folders, OVERRIDES) or {}).get("overrides", []) if relative == CONFIG else [])
    return moved


def _texts(differences: Iterable[tuple[str, Any, Any]]) -> list[str]:
    return [f"{key}: {old!r} before, {new!r} now" for key, old, new in differences]


def has_checkpoint(run: Path) -> bool:
    """Whether a run directory has a checkpoint, intact or not."""
    return bool(CheckpointStore(run / CHECKPOINTS).folders())


def begin_with_weights(run: Path) -> str:
    """The command that starts a new run from a sealed run's weights."""
    return (f"workings export {shlex.quote(str(run))} --out WEIGHTS, then the same command with another --out and "
            "'model={source: pretrained, id: WEIGHTS}' tokenizer=model")


def _refuse(differences: Sequence[str], overrides: Sequence[str]) -> None:
    """Raises `RequestError` if something differs; ``overrides``: the words that the run was started with."""
    if differences:
        hidden = len(differences) - MAX_DIFFERENCES_SHOWN
        more = [f"and {hidden} more"] if hidden > 0 else []
        again = f"resume with what it was started with: {shlex.join(overrides)}" if overrides else (
            "resume with the recipe it was started with")
        raise RequestError("recipe or data have changed: " + "; ".join([*differences[:MAX_DIFFERENCES_SHOWN], *more]),
                           "the same recipe and data as the run that is resumed",
                           f"{again}; or start a new run with another --out")


def _before(folders: Sequence[Path], relative: str) -> dict[str, Any] | None:
    """A file of the run, or of the sealed one that it continues; None if neither has it."""
    paths = [folder / relative for folder in folders]
    values: dict[str, Any] | None = next((loads(path.read_bytes()) for path in paths if path.is_file()), None)
    return values


RUNS = Path("runs")
"""Folder of runs, relative to the current folder."""


def run_directory(name: str, *, resume: bool = False) -> Path:
    """``runs/NAME``, or with the next free number.

    Raises:
        RequestError: ``resume``, because the directory of the run to resume must be given.
    """
    if resume:
        # Probably the newest one: propose it, but do not use it.
        existing = sorted(RUNS.glob(f"{name}*"), key=lambda path: path.stat().st_mtime)
        last = str(existing[-1]).removesuffix(".partial") if existing else str(RUNS / name)
        raise RequestError("--resume needs --out", "the run to resume", f"--out {last} --resume")
    paths = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in paths if not path.exists() and not partial_path(path).exists())
