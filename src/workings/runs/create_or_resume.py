"""Names and opens a run directory: a new one, or that of a killed, interrupted or failed run after its checkpoint."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.distributed.process_group import differing
from workings.errors import RequestError
from workings.evaluation.cache import base_key
from workings.hardware.device import row_devices
from workings.inputs.resolve import RANDOM
from workings.record import jsonl, layout
from workings.record.canonical import loads, read_json
from workings.record.checkpoints import Checkpoint, CheckpointStore
from workings.record.layout import numbered, partial_path
from workings.record.reader import RunRecord
from workings.record.values import Absent
from workings.record.writer import RunWriter

MAX_DIFFERENCES_SHOWN = 6
LAYOUT_KEYS = {"batch.micro_batch", "mesh.fsdp", "mesh.tp", "mesh.replicate"}
"""Recipe keys that only distribute rows over devices; training depends only on their product."""
RUNS = Path("runs")
"""Folder of runs, relative to the current folder."""


def load_to_resume(recipe: RecipeLike, overrides: Overrides, out: Path, say: Callable[[str], object]) -> LoadedRecipe:
    """`load_recipe` for a run to resume: without overrides it uses and reports the recorded ones."""
    if not overrides and not isinstance(recipe, LoadedRecipe):
        recorded = _before([partial_path(out), out], layout.OVERRIDES).get("overrides", [])
        if recorded:
            say(f"resume     with the run's original overrides: {shlex.join(recorded)}")
            return load_recipe(recipe, recorded, recorded=True)
    return load_recipe(recipe, overrides)


def resume_run(out: Path, request: dict[str, dict[str, Any]], mesh: Mapping[str, int],
               attempt: str) -> tuple[RunWriter, Checkpoint | None, bool]:
    """Opens the directory of a run that did not finish, after its newest complete checkpoint.

    Another number of devices may resume it if a micro batch over all devices has the same rows. ``request`` and
    ``mesh`` (sizes of its axes) are those of this attempt, see `workings.runs.run_metadata.request_of`; ``attempt`` is
    the digest of its line in the list of attempts. Returns that checkpoint, too, and whether an earlier attempt began.
    Raises `RequestError` if there is nothing to resume or the request differs, and `RecordError`.
    """
    # Before renaming, so that a refused request leaves a sealed run in place.
    if (out / layout.SEAL).is_file() and RunRecord.open(out).status != "complete":
        refuse_other_request([out], request, mesh)
    writer = RunWriter.resume(out)
    try:
        origin = writer.resumed_from
        # Before truncating metrics, so that a refused request loses no line.
        folders = [writer.directory, out.with_name(origin["name"])] if origin else [writer.directory]
        moved = refuse_other_request(folders, request, mesh)
        checkpoint, skipped = writer.checkpoints.latest_valid()
        step = 0 if checkpoint is None else checkpoint.step
        facts = writer.truncate_metrics(step)
        # All attempts write to the same file of events. If none had written one, this attempt is the first.
        had_begun = any(event["kind"] == "started" for event in jsonl.read(writer.path(layout.EVENTS))[0])
        if had_begun:
            writer.event("resumed", attempt=attempt, from_step=step, damaged_checkpoints=skipped, **facts,
                         **({"moved": moved} if moved else {}))
        else:
            writer.event("started", attempt=attempt)
    # Also on Ctrl-C, because the lock would block the next attempt of this process.
    except BaseException:
        writer.close()
        raise
    return writer, checkpoint, had_begun


def evaluation_is_missing(out: Path) -> bool:
    """Whether a sealed, complete run was stopped before its own or the untrained model's evaluation was sealed."""
    if not (out / layout.SEAL).is_file():
        return False
    run = RunRecord.open(out)
    # The run announces its evaluations, so that one without any does not look unfinished.
    if run.status != "complete" or not any(event["kind"] == layout.ANNOUNCED for event in run.events()):
        return False
    return not (out / layout.RECIPE_EVALUATION).exists() or (
        run.manifest.config.get("evaluation", {}).get("base") is True and not has_base(run))


def what_is_left(out: Path) -> Literal["start", "resume", "nothing"]:
    """What `--auto-resume` does with a run directory. It also resumes a complete run that lacks an evaluation."""
    if partial_path(out).is_dir():
        return "resume"
    if not (out / layout.SEAL).is_file():
        return "start"
    return "nothing" if RunRecord.open(out).status == "complete" and not evaluation_is_missing(out) else "resume"


def untrained_model(run: RunRecord) -> dict[str, Any]:
    """Identity of the untrained model of a sealed run, as the evaluation of that model records it."""
    manifest, digests = run.manifest, run.manifest.weight_digests
    origin: dict[str, Any] = {"revision": str(manifest.model_revision), "weights": digests}
    if isinstance(digests, Absent):
        origin = {"revision": RANDOM, "shape": read_json(run.path / layout.MODEL_SHAPE), "seed": manifest.seed}
    return {"id": manifest.model_id, "step": 0, "dtypes": dict(manifest.actual_dtypes), **origin}


def has_base(run: RunRecord) -> bool:
    """Whether an evaluation of the untrained model on the run's items is sealed next to the run."""
    config = read_json(run.path / layout.RECIPE_EVALUATION / layout.EVALUATION_CONFIG)
    key = base_key(config | {"model": untrained_model(run)})
    return any((unit / layout.SEAL).is_file() for unit in run.path.parent.glob(f"base-*-{key}"))


def refuse_other_request(folders: Sequence[Path], request: dict[str, dict[str, Any]],
                         mesh: Mapping[str, int]) -> list[str]:
    """Raises `RequestError`, with every differing key, if the request of a resumed run differs.

    ``folders``: the run, and the sealed one that it continues. Returns sentences about allowed differences: the same
    rows may be distributed over devices in another way.
    """
    moved: list[str] = []
    for relative, values in request.items():
        before = _before(folders, relative)
        if not before:  # killed before the request was written: there is nothing to compare with
            continue
        differences = [*differing(before, values)]
        texts = [f"{key}: {old!r} before, {new!r} now" for key, old, new in differences]
        # A run that was killed early may have no device checks; then every difference is refused.
        mesh_before = _before(folders, layout.DEVICE_CHECKS).get("mesh", {})
        if relative == layout.CONFIG and "fsdp" in mesh_before and {key for key, _, _ in differences} <= LAYOUT_KEYS:
            _refuse_other_rows(before, mesh_before, values, mesh)
            moved += texts
            if mesh_before != dict(mesh):
                moved.append(f"mesh: {mesh_before} before, {dict(mesh)} now")
        elif texts:
            words = _before(folders, layout.OVERRIDES).get("overrides", []) if relative == layout.CONFIG else []
            started_with = "the recipe it was started with"
            if words:
                started_with = f"what it was started with: {shlex.join(words)}"
            raise RequestError("recipe or data have changed: " + "; ".join(texts[:MAX_DIFFERENCES_SHOWN]),
                               "the same recipe and data as the run that is resumed",
                               f"resume with {started_with}; or start a new run with another --out")
    return moved


def _refuse_other_rows(before: Mapping[str, Any], mesh_before: Mapping[str, int], now: Mapping[str, Any],
                       mesh: Mapping[str, int]) -> None:
    """Raises `RequestError` if a micro batch over all devices has another number of rows than before."""
    devices = row_devices(mesh)
    rows_before = int(before["batch"]["micro_batch"]) * row_devices(mesh_before)
    rows_now = int(now["batch"]["micro_batch"]) * devices
    if rows_before != rows_now:
        raise RequestError(f"micro batches have {rows_now} rows over all devices, and the run had {rows_before}",
                           "as many rows as before, so that all batches stay the same",
                           f"batch.micro_batch={rows_before // devices}" if rows_before % devices == 0 else
                           f"a number of devices that divides {rows_before} rows")


def has_checkpoint(run: Path) -> bool:
    """Whether a run directory has a checkpoint, intact or not."""
    return bool(CheckpointStore(run / layout.CHECKPOINTS).folders())


def _before(folders: Sequence[Path], relative: str) -> dict[str, Any]:
    """A JSON file of the run, or of the sealed one that it continues; empty if neither has it."""
    paths = [folder / relative for folder in folders]
    values: dict[str, Any] = next((loads(path.read_bytes()) for path in paths if path.is_file()), {})
    return values


def run_directory(name: str, *, resume: bool = False) -> Path:
    """``runs/NAME``, or with the next free number. Raises `RequestError` with ``resume``, which needs a directory."""
    if resume:
        raise RequestError("--resume needs --out", "the run to resume", f"--out {RUNS / name} --resume")
    paths = (RUNS / each for each in numbered(name))
    return next(path for path in paths if not path.exists() and not partial_path(path).exists())
