"""READMEs of runs and packs: views of their records, which verification renders again.

A run's README is written at its end. A pack's README has the exact commands to check it and to train its runs again.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from workings.config.explain import GIVEN
from workings.config.overrides import flow
from workings.config.recipe_paths import with_changed_paths
from workings.models.unverified import said_of_recipe
from workings.record.layout import DATA_DIGESTS, MEASURED, METRICS, OVERRIDES, PLAN, PROMPTS, RECIPE, ROWS, SUMS
from workings.record.manifest import CONVERTED_FROM, RunFiles, RunManifest
from workings.record.memory_use import excess_sentence, memory_sentence

NEAR = 3
"""Largest number of folders between a run and a recipe that is named by its relative path."""
SHIPPED = "shipped:"
"""Prefix of the origin of a recipe that comes with the package."""


def run_readme(manifest: RunManifest, files: RunFiles) -> str:
    """A summary of a run on one screen, and how to reproduce and verify it. Raises `RecordError`."""
    index = PROMPTS if files.has(PROMPTS) else ROWS
    rows, plan, measured = files.lines(index), files.json_object(PLAN), files.json_object(MEASURED)
    note = f" {said_of_recipe(manifest.config, manifest.architecture)}".rstrip()
    over_plan = excess_sentence(plan, measured)
    exceeded = f"\n- Over plan: {over_plan}." if over_plan else ""
    dropped = sum(row.get("status") == "dropped" for row in rows)
    origin = manifest.facts.get(CONVERTED_FROM)
    kind = manifest.architecture
    if isinstance(origin, dict) and isinstance(origin.get("what"), str):
        kind = f"{origin['what']}; {kind}"  # such as `Q4_1 of NAME, dequantized to bf16`, for weights of a GGUF file
    return f"""# Run {manifest.name}

Status: **{manifest.status}** ({manifest.status_reason}); {manifest.completed_steps} of {manifest.planned_steps} steps.

- Model: {manifest.model_id} ({kind}, {manifest.parameters:,} parameters), seed {manifest.seed}.{note}
- Engine: {manifest.engine} from {manifest.engine_distribution.name} {manifest.engine_distribution.version}.
- Device: {manifest.hardware} ({manifest.device.platform}; {manifest.device.reason}).
- Data: `{index}`, {len(rows) - dropped:,} of {len(rows):,} lines are trained on.
- Trained on {manifest.supervised_tokens:,} supervised tokens; {_learned(files.lines(METRICS))}.
- Memory: {memory_sentence(plan, measured)}.{exceeded}
- Made by workings {manifest.workings_version}.

Reproduce it, typed in this folder (the recipe as written and the overrides are in `config/`, the digests of the data
in `{DATA_DIGESTS}`; paths in a recipe are relative to where it stood):

    {command_again(files.json_object(OVERRIDES), manifest)}

Verify it, offline, without any ML library; every file is listed in `{SUMS}`:

    workings verify .
    sha256sum -c {SUMS}
"""


def _learned(metrics: Sequence[Mapping[str, Any]]) -> str:
    """What the steps changed, in a clause: rewards, else losses."""
    if rewards := [row["reward"] for row in metrics if "reward" in row]:
        return f"mean reward {rewards[0]:.3f} at first, {rewards[-1]:.3f} at last"
    if not metrics:
        return "no step was completed"
    return f"loss {metrics[0]['loss']:.4f} at the first step, {metrics[-1]['loss']:.4f} at the last"


def command_again(request: Mapping[str, Any], manifest: RunManifest) -> str:
    """The command that trains a run again, typed inside its directory; ``request``: as for `train_command`.

    A recipe file is named by its path, because its own paths are relative to it. A path far away is not recorded, so
    the copy in `config/` is used instead.
    """
    origin, base = str(request["origin"]), request["base"]
    recipe, recipe_stays = RECIPE, False
    if origin.startswith(SHIPPED):
        recipe = origin.removeprefix(SHIPPED)
    elif origin != GIVEN and isinstance(base, str):
        recipe, recipe_stays = Path(base, Path(origin).name).as_posix(), True
    return train_command(recipe, f"../{manifest.name}-again", request, manifest, move=str, recipe_stays=recipe_stays)


def train_command(recipe: str, out: str, request: Mapping[str, Any], manifest: RunManifest, *,
                  move: Callable[[str], str], recipe_stays: bool = False) -> str:
    """The command that trains a run again into ``out``, typed in another folder.

    ``request``: contents of `config/overrides.json` (`origin`, `base`, `overrides`, `files`); empty without that file.
    ``move`` changes the name of a file for the folder in which the command is typed. If ``recipe_stays``, the recipe is
    read from its own path, so that files which no override names need no value.
    """
    overrides = [str(word) for word in request.get("overrides", ())]
    named = {override.partition("=")[0] for override in overrides}
    files = {}
    for key, value in request.get("files", {}).items():
        # An override may set a key such as `data.traces`, or the whole section `data`.
        if not recipe_stays or named & {key, key.partition(".")[0]}:
            # A list of rewards or an environment names files in its entries.
            files[key] = move(value) if isinstance(value, str) else with_changed_paths({key: value}, move)[key]
    overrides = [override for override in overrides if override.partition("=")[0] not in files]
    overrides += [f"{key}={flow(value)}" for key, value in sorted(files.items())]
    # Without its steps the recipe of a smoke run would train a larger model.
    smoke = ["--smoke-steps", str(manifest.planned_steps)] if manifest.facts.get("smoke") is True else []
    return shlex.join(["workings", "train", recipe, "--out", out, *overrides, *smoke])


def pack_readme(version: str, units: Mapping[str, str], runs: Mapping[str, tuple[RunManifest, Mapping[str, Any]]], *,
                by_digest: bool) -> str:
    """Contents of a pack, and how to check it and to train its runs again.

    ``units``: roots of the runs, and of the evaluations in them, by path in the pack; ``runs``: manifest and
    `config/overrides.json` (empty if there is none) of each run, by path; ``by_digest``: whether files are named so.
    """
    lines = [
        "# What was trained, and how to check it", "",
        "| | |", "|---|---|",
        "| `runs/` | the sealed records, and `attempts.jsonl`: every run that was started |",
        "| `data/` | what is known of the data |",
        "| `pack.json`, `SHA256SUMS`, `SEAL.json` | every unit with its root digest, every file with its sum |", "",
        "## Check it", "", f"Offline, with workings {version}, without any ML library. Give the zip as it is, or "
        "type in the folder that it was unpacked into:", "", "    workings verify .", "",
        "Runs, and the evaluations in them, have these root digests:", "",
        *(f"    {root}  {path}" for path, root in sorted(units.items())), ""]
    # Said here, because a run that is copied out of the pack would fail for its missing tensors.
    if by_digest:
        lines += ["Checkpoints' tensors are not here; `pack.json` names each by its digest, which is the one in the "
                  "run's checksums. Everything else is. So verify the whole pack: a run extracted from it lacks "
                  "its tensors.", ""]
    lines += ["## Make it again", "", "Unpack it, and type in its folder:", ""]
    lines += [f"    {packed_command(path, manifest, request)}" for path, (manifest, request) in sorted(runs.items())]
    # The pack has digests of the data, not the data, which may not be redistributable.
    lines += ["", "Private data are not in the pack: put each file that a command or a recipe names "
              "at its place. `data/digests.json` of each run says which bytes they were.", ""]
    return "\n".join(lines)


def packed_command(path: str, manifest: RunManifest, request: Mapping[str, Any]) -> str:
    """The command that trains the run at a path in a pack again, typed in the unpacked folder."""
    origin, name = str(request.get("origin", "")), path.rpartition("/")[2]
    recipe = origin.removeprefix(SHIPPED) if origin.startswith(SHIPPED) else f"{path}/{RECIPE}"
    return train_command(recipe, f"again/{name}", request, manifest,
                         move=lambda file: f"data/{name}/{PurePath(file).name}")
