"""A run's README, made of what its record says: written at the end of a run, and made again by whoever verifies it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.config.load import GIVEN
from workings.config.overrides import flow
from workings.config.recipe_paths import with_changed_paths
from workings.models.unproven import said_of_recipe
from workings.record.layout import DATA_DIGESTS, RECIPE, SUMS
from workings.record.manifest import RunManifest
from workings.record.values import Absent

NEAR = 3
"""Folders that a recipe may lie above its run and still be named by its relative path."""
SHIPPED = "shipped:"
"""Begins the origin of a recipe that comes with the package."""


def run_readme(manifest: RunManifest, *, data: str, command: str, memory: str,
               learned: tuple[float, float] | str | None) -> str:
    """What this run was, in a screen, and how to reproduce and verify it.

    Args:
        manifest: of the run.
        data: how much it learned from, in a sentence.
        command: that asks for it again.
        memory: planned and taken, in a sentence.
        learned: mean rewards of the first and the last rollout, where it learned from rewards; what became of its
            pairs, where it learned from preferences.
    """
    loss = "no step was completed" if isinstance(manifest.final_loss, Absent) else (
        f"loss {manifest.first_loss:.4f} at the first step, {manifest.final_loss:.4f} at the last")
    if isinstance(learned, tuple):
        loss = f"mean reward {learned[0]:.3f} at first, {learned[1]:.3f} at last"
    elif learned is not None:
        loss = f"{loss}; {learned}"
    said = f" {said_of_recipe(manifest.config_snapshot, manifest.architecture)}".rstrip()
    return f"""# Run {manifest.name}

Status: **{manifest.status}** ({manifest.status_reason}); {manifest.completed_steps} of {manifest.planned_steps} steps.

- Model: {manifest.model_id} ({manifest.architecture}, {manifest.parameters:,} parameters), seed {manifest.seed}.{said}
- Engine: {manifest.engine} from {manifest.engine_distribution.name} {manifest.engine_distribution.version}.
- Device: {manifest.hardware} ({manifest.actual_device.platform}; {manifest.actual_device.reason}).
- Data: {data}.
- Trained on {manifest.supervised_tokens:,} supervised tokens; {loss}.
- Memory: {memory}.
- Made by workings {manifest.workings_version}.

Reproduce it, typed in this folder (the recipe as written and the overrides are in `config/`, the digests of the data
in `{DATA_DIGESTS}`; paths in a recipe are relative to where it stood):

    {command}

Verify it, offline, without any ML library; every file is listed in `{SUMS}`:

    workings verify .
    sha256sum -c {SUMS}
"""


def command_again(asked: Mapping[str, Any], manifest: RunManifest) -> str:
    """The command that asks for a run again, typed inside its directory.

    A recipe file is named where it stood, because what it names is relative to that place; a place far away is not
    written down (it may name a person's home), and the copy in `config/` stands for it.

    Args:
        asked: contents of `config/overrides.json`.
        manifest: of the run.
    """
    origin, base = str(asked["origin"]), asked["base"]
    stays = False
    if origin.startswith(SHIPPED):
        recipe = origin.removeprefix(SHIPPED)
    elif origin == GIVEN or not isinstance(base, str):
        recipe = RECIPE
    else:
        recipe, stays = Path(base, Path(origin).name).as_posix(), True
    typed = [str(word) for word in asked.get("overrides", ())]
    overrides = with_files(typed, asked.get("files", {}), recipe_stays=stays)
    # Earlier versions, which did not write down the files, left the options out.
    smoke = smoke_words(manifest) if "files" in asked else []
    # Beside the run and under another name: `train` refuses a folder that exists.
    return shlex.join(["workings", "train", recipe, "--out", f"../{manifest.name}-again", *overrides, *smoke])


def smoke_words(manifest: RunManifest) -> list[str]:
    """Options of a smoke run: it trained a smaller model than its recipe names, and only they make that model again."""
    return ["--smoke-steps", str(manifest.planned_steps)] if manifest.facts.get("smoke") is True else []


def moved_files(files: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """What to write for each key that names files, seen from another folder; ``change`` moves one name there."""
    return {key: change(name) if isinstance(name, str) else with_changed_paths({key: name}, change)[key]
            for key, name in files.items()}


def with_files(overrides: Sequence[str], files: Mapping[str, Any], *, recipe_stays: bool) -> list[str]:
    """Overrides for a command that is typed in another folder.

    Args:
        overrides: as they were typed.
        files: what to write for each key that names files.
        recipe_stays: the recipe is read where it stood, and finds by itself what no override names.
    """
    if recipe_stays:
        typed = {override.partition("=")[0] for override in overrides}
        files = {key: name for key, name in files.items() if typed & {key, key.partition(".")[0]}}
    rest = [override for override in overrides if override.partition("=")[0] not in files]
    # Behind the others, so that they count where an override sets a whole section.
    return [*rest, *(f"{key}={flow(value)}" for key, value in sorted(files.items()))]
