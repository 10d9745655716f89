"""Files that describe a run: request and environment before the first step, the manifest at the end."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import workings
from workings.config.load import LoadedRecipe
from workings.config.recipe_paths import is_data_or_model_path, leads_above_home, with_changed_paths
from workings.engines.base import ReportingEngine
from workings.evidence.readmes import NEAR
from workings.inputs.resolve import weight_digests
from workings.models.weights import parameter_count
from workings.record import layout
from workings.record.digest import bytes_digest
from workings.record.environment import collect
from workings.record.manifest import REASONS, Distribution, RunFolder, RunManifest
from workings.record.redact import redact
from workings.record.values import Absent, absent, leaves, now
from workings.record.writer import RunWriter
from workings.runs.memory_check import plan_here
from workings.runs.prepare import TrainSetup
from workings.training.loop import Outcome

PLANNED = ("peak_bytes", "limit_bytes", "available_bytes", "source", "program", "peaks", "parts", "breakdown")
"""Keys of a plan that are recorded; the rest is in other files of the run, or follows from these."""


def data_digests(setup: TrainSetup) -> dict[str, str]:
    """Digests of all training and evaluation data, and of the tokenizer."""
    return setup.data.digests | dict(setup.training_data.digests) | {"tokenizer": setup.tokenizer.digest}


def request_of(setup: TrainSetup) -> dict[str, dict[str, Any]]:
    """Contents of the files in which a resumed run must be equal to this one, by their names."""
    return {layout.CONFIG: setup.config, layout.DATA_DIGESTS: data_digests(setup)}


def base_from(run: Path, base: Path) -> str | dict[str, str]:
    """The path from the run to the folder ``base`` of a recipe; absent if it would name a user's folder."""
    # The final folder does not exist while the run is written, so only its parent is resolved.
    folder, start = run.parent.resolve() / run.name, base.resolve()
    relative = Path(os.path.relpath(start, folder)).as_posix()
    is_near = relative.count("..") <= NEAR and not leads_above_home(start, folder)
    return relative if is_near else {"absent": "far away from the run"}


def files_from(run: Path, loaded: LoadedRecipe) -> dict[str, Any]:
    """Paths of the recipe's files relative to the run's folder, by dotted key, if they differ from the recipe's."""
    def change(name: str) -> str:
        path = loaded.path(name)
        if not is_data_or_model_path(path) or (loaded.kept and path.is_relative_to(loaded.base.parent.resolve())):
            return name
        relative = base_from(run, path)
        if not isinstance(relative, str):
            return name
        # With a leading dot, so that it is not mistaken for a data set or model.
        return relative if relative.startswith("..") else f"./{relative}"

    values = loaded.recipe.model_dump(mode="json")
    in_recipe, from_run = dict(leaves(values)), dict(leaves(with_changed_paths(values, change)))
    return {key: name for key, name in from_run.items() if name != in_recipe[key]}


def write_request(writer: RunWriter, setup: TrainSetup) -> None:
    """Writes recipe, data, environment and plan: everything that is known before the first step."""
    loaded = setup.loaded
    writer.write_text(layout.RECIPE, loaded.text)
    # A recipe whose files are kept in the run starts from its own copy.
    base = Path(layout.RECIPE).parent.as_posix() if loaded.kept else base_from(writer.final, loaded.base)
    writer.write_json(layout.OVERRIDES, {
        "origin": Path(loaded.origin).name, "overrides": list(loaded.overrides), "renamed": list(loaded.renamed),
        "chosen": list(loaded.chosen), "files": files_from(writer.final, loaded), "base": base})
    for name in loaded.kept:
        writer.write_cleaned(name, (loaded.base.parent / name).read_bytes())
    for name, values in request_of(setup).items():
        writer.write_json(name, values)
    # Not redacted: its digest is recorded, and a vocabulary may hold any text.
    setup.tokenizer.save(writer.path(layout.TOKENIZER))
    writer.write_json(layout.MODEL_SHAPE, setup.shape.to_json())
    setup.training_data.write(writer)
    writer.write_json(layout.ENVIRONMENT, collect())
    if isinstance(setup.engine, ReportingEngine):
        for name, text in setup.engine.environment_files().items():
            writer.write_text(f"env/{name}", redact(text))
    device = setup.device
    writer.write_json(layout.DEVICE_CHECKS, {
        "platform": device.platform, "kind": device.kind, "count": device.count, "reason": device.reason,
        "mesh": dict(device.mesh), **setup.device_check})
    plan = plan_here(setup).to_json()
    writer.write_json(layout.PLAN, {name: plan[name] for name in PLANNED if name in plan})


def build_manifest(setup: TrainSetup, writer: RunWriter, outcome: Outcome, facts: dict[str, Any]) -> RunManifest:
    """The manifest of a run that ended, whose other files are written; ``facts`` were known before its first step."""
    commit, changes = code_version()
    return RunManifest(
        name=writer.final.name, status=outcome.status, status_reason=outcome.reason or REASONS["complete"],
        engine_distribution=Distribution(name=setup.registered.distribution, version=setup.registered.version),
        commit_sha=commit, dirty_diff_digest=changes, model_id=setup.weights.id,
        model_revision=absent("random weights") if setup.weights.directory is None else setup.weights.revision,
        weight_digests=absent("random weights from the seed") if setup.weights.directory is None else
        weight_digests(setup.weights.directory), parameters=parameter_count(setup.shape),
        actual_dtypes=dict(setup.engine.dtypes()), finished_at=now(), facts=facts,
    ).of(RunFolder(writer.directory, bounded=False))


def code_version() -> tuple[str | Absent, str | Absent]:
    """Commit of the imported package's checkout and digest of its uncommitted changes; an installed wheel has none."""
    package = Path(workings.__file__).resolve().parent
    # An environment may be inside another project's checkout, whose commit is irrelevant.
    if "site-packages" in package.parts or not (package.parents[1] / ".git").exists():
        reason = absent(f"installed as a package, version {version('workings')}")
        return reason, reason
    try:
        commit = _git(package, "rev-parse", "HEAD").decode().strip()
        # Against HEAD, so that staged changes count; files that git does not track are not seen.
        diff = _git(package, "diff", "HEAD", "--binary", "--no-ext-diff")
    # Git may be missing or refuse a folder of another owner: the record then says why it has no commit.
    except (OSError, subprocess.SubprocessError) as error:
        reason = absent(f"git: {error}")
        return reason, reason
    return commit, bytes_digest(diff) if diff else absent("no uncommitted changes")


def _git(directory: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True, timeout=30).stdout
