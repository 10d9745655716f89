"""README of a pack: its contents, the exact commands to check it and to train its runs again."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from workings.evidence.run_readme import moved_files, smoke_words, with_files
from workings.record.layout import RECIPE
from workings.record.manifest import RunManifest


@dataclass(frozen=True, kw_only=True)
class PackedRun:
    """Inputs of the lines about a run."""

    manifest: RunManifest
    asked: Mapping[str, Any]
    """Contents of `config/overrides.json`; empty if the run has none."""


def readme(version: str, units: Mapping[str, str], runs: Mapping[str, PackedRun], *, by_digest: bool) -> str:
    """Markdown of the README: a view of the records, which verification renders again.

    Args:
        version: version of this package.
        units: roots of the runs, and of the evaluations in them, by path in the pack.
        runs: runs by path in the pack, in the order of the paths.
        by_digest: whether the pack names files by digest.
    """
    lines = [
        "# What was trained, and how to check it", "",
        "| | |", "|---|---|",
        "| `runs/` | the sealed records, and `attempts.jsonl`: every run that was started |",
        "| `data/` | what is known of the data |",
        "| `pack.json`, `SHA256SUMS`, `SEAL.json` | every unit with its root digest, every file with its sum |", "",
        "## Check it", "", f"Offline, with workings {version}, without any ML library. Give the zip as it is, or "
        "type in the folder that it was unpacked into:", "",
        *_indented("workings verify ."), "",
        # Indented by four spaces: Markdown code, without markup. All units: none is left out unseen.
        "Runs, and the evaluations in them, have these root digests:", "",
        *(f"    {root}  {path}" for path, root in sorted(units.items())), ""]
    # Said here, because a run that is copied out of the pack would fail for its missing tensors.
    if by_digest:
        lines += ["Checkpoints' tensors are not here; `pack.json` names each by its digest, which is the one in the "
                  "run's checksums. Everything else is. So verify the whole pack: a run extracted from it lacks "
                  "its tensors.", ""]
    lines += ["## Make it again", "", "Unpack it, and type in its folder:", ""]
    for path, run in sorted(runs.items()):
        lines += _indented(train_command(path, run))
    # The pack has digests of the data, not the data, which may not be redistributable.
    lines += ["", "Private data are not in the pack: put each file that a command or a recipe names "
              "at its place. `data/digests.json` of each run says which bytes they were.", ""]
    return "\n".join(lines)


def train_command(path: str, run: PackedRun) -> str:
    """The command that trains this run again, typed in the unpacked folder."""
    origin = str(run.asked.get("origin", ""))
    # The last part of `runs/<name>`.
    name = path.rpartition("/")[2]
    # A shipped recipe is asked for by its name; any other one is in the run.
    recipe = origin.removeprefix("shipped:") if origin.startswith("shipped:") else f"{path}/{RECIPE}"
    files = moved_files(run.asked.get("files", {}), lambda file: f"data/{name}/{PurePath(file).name}")
    overrides = with_files([str(override) for override in run.asked.get("overrides", [])], files, recipe_stays=False)
    return shlex.join(["workings", "train", recipe, "--out", f"again/{name}", *overrides, *smoke_words(run.manifest)])


def _indented(*lines: str) -> list[str]:
    # Four spaces make a line code in Markdown.
    return [f"    {line}" for line in lines]
