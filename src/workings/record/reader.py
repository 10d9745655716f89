"""Reads a sealed run. Reading checks the form; `workings verify` checks the truth."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record.canonical import read_json
from workings.record.checkpoints import BestCheckpoint, Checkpoint, CheckpointStore, best_checkpoint
from workings.record.layout import CHECKPOINTS, EVALUATION_SUMMARY, EVENTS, MANIFEST, METRICS, SEAL, checkpoint_folder
from workings.record.manifest import RunFolder, RunManifest, read_manifest
from workings.record.seal import parse_seal, root_digest
from workings.record.storage import read_plain


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A sealed run directory."""

    path: Path
    manifest: RunManifest
    status: str
    """`complete`, `interrupted` or `failed`, as sealed."""
    root: str
    """Root digest: SHA-256 of the run's `SHA256SUMS`."""

    @classmethod
    def open(cls, path: Path) -> "RunRecord":
        """Open a sealed run. Raises `RequestError` if there is none at ``path``, `RecordError` if it cannot be read."""
        if not (path / SEAL).is_file() or not (path / MANIFEST).is_file():
            weights = "a folder of weights, and " if (path / "config.json").is_file() else ""
            given = f"{path} is {weights}not a sealed run" if path.exists() else f"there is no run {path}"
            raise RequestError(given, f"a sealed run directory (with {MANIFEST} and {SEAL})", _advice(path))
        status = parse_seal(read_plain(path / SEAL))["status"]
        return cls(path=path, manifest=read_manifest(RunFolder(path)), status=status, root=root_digest(path))

    def metrics(self) -> list[dict[str, Any]]:
        """Lines of `train/metrics.jsonl`, by step. Raises `RecordError`."""
        return RunFolder(self.path).lines(METRICS)

    def events(self) -> list[dict[str, Any]]:
        """Lines of `train/events.jsonl`, in order. Raises `RecordError`."""
        return RunFolder(self.path).lines(EVENTS)

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """`eval_summary.json` of each sealed evaluation, by the name of its folder. Raises `RecordError`."""
        units = sorted(seal.parent for seal in self.path.glob(f"eval/*/{SEAL}"))
        return {unit.name: read_json(unit / EVALUATION_SUMMARY) for unit in units}

    @cached_property
    def best(self) -> BestCheckpoint | None:
        """The best checkpoint; None where the recipe keeps the last one. Raises `RecordError`."""
        return best_checkpoint(self.manifest.config.get("checkpoint", {}), self.metrics(), self.manifest.planned_steps)

    @property
    def kept_step(self) -> int:
        """Step of the checkpoint that is exported, asked and evaluated: the best one or the last."""
        return self.manifest.completed_steps if self.best is None else self.best.step

    def kept_checkpoint(self) -> Checkpoint:
        """`kept_step`'s checkpoint, every byte checked. Raises `RecordError`: a damaged best one is not replaced."""
        if self.best is not None:
            return self.checkpoints.load(self.path / CHECKPOINTS / checkpoint_folder(self.best.step))
        checkpoint, skipped = self.checkpoints.latest_valid()
        if checkpoint is None:
            raise RecordError("\n".join([f"{self.path} has no intact checkpoint", *skipped]))
        return checkpoint

    @property
    def checkpoints(self) -> CheckpointStore:
        """The run's checkpoints; only its reading methods make sense here."""
        return CheckpointStore(self.path / CHECKPOINTS)


def _advice(path: Path) -> str:
    """A proposal in place of a path that is no sealed run."""
    if (path / "config.json").is_file():
        return f"workings data sample {path} --prompts FILE --out samples"
    if (Path("runs") / path / SEAL).is_file():
        return f"did you mean {Path('runs') / path}?"
    if inside := sorted(seal.parent for runs in (path, path / "runs") for seal in runs.glob(f"*/{SEAL}")):
        return f"a run in it, such as {inside[0]}"
    siblings = sorted(seal.parent.name for seal in path.parent.glob(f"*/{SEAL}"))
    return f"a run in {path.parent}: {', '.join(siblings[:6])}" if siblings else "workings runs"
