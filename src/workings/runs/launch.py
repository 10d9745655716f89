"""`launch`: the files that start a run on another machine. The planner picks the machine; nothing is started."""

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.recipe_paths import recipe_paths
from workings.errors import RequestError
from workings.hardware.catalog import Target, find_target, targets
from workings.hardware.memory import gib
from workings.inputs.object_store import is_stored
from workings.launching.files import START, Wheel, kubernetes, skypilot, slurm
from workings.launching.job import PLAN, RECIPE, LaunchJob
from workings.planning.plan import Plan
from workings.record.digest import file_digest, json_digest
from workings.runs.plan import plan_target
from workings.runs.select_engine import with_engine

Launcher = Literal["slurm", "kubernetes", "skypilot"]
NODES = (1, 2, 4, 8, 16)
"""Numbers of hosts with cards that are tried, where none is named."""
CHIPS_OF_A_HOST = 4
"""Of a TPU slice of several hosts; slices of up to eight chips are in one host."""
DATA = "data"


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What `launch` is asked for, in addition to the recipe."""

    launcher: Launcher
    target: str
    """A target of the catalog, or a TPU's family (`v5e`), whose smallest slice that fits is taken."""
    remote_folder: str
    hosts: int = 0
    """0: the planner picks."""
    cards: int = 0
    """Of a host; 0: as many as the target has."""
    name: str = ""
    image: str = ""
    volume_claim: str = "workings"
    storage: str = ""
    wheel: Path | None = None
    """This package's wheel, for machines that are rented bare."""


@dataclass(frozen=True, kw_only=True)
class LaunchResult:
    """What was written."""

    job: LaunchJob
    plan: Plan
    files: tuple[str, ...]
    folder: Path
    start: str
    """What a person types there."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``launch --json``."""
        return {"folder": str(self.folder), "files": list(self.files), "target": self.job.target,
                "hosts": self.job.hosts, "devices": self.job.devices, "engine": self.job.engine,
                "recipe_sha256": self.job.recipe_digest, "plan": self.plan.to_json(), "start": self.start,
                "file_notes": list(self.job.file_notes), "validated": True, "run": False}


@dataclass(frozen=True, kw_only=True)
class PickedMachine:
    """The machine that was picked."""

    plan: Plan
    target: Target
    hosts: int
    devices: int
    """Of a host."""


def launch(loaded: LoadedRecipe, request: LaunchRequest, folder: Path) -> LaunchResult:
    """Plan, pick the machine, and write a folder that holds all that its launcher needs.

    Raises:
        RequestError: what was asked for is wrong, or the recipe fits on none of the machines.
    """
    if folder.exists():
        raise RequestError(f"--write {folder}, which exists", "a folder that does not exist yet", "another name")
    # The first one decides the platform, which all candidates of a request share.
    target, hosts, devices = next(candidates(request))
    loaded = with_engine(loaded, target.platform)
    name, engine = request.name or _name(loaded.recipe.name), loaded.recipe.engine
    # Everything that is wrong with the request is said before a compiler is asked, which may take minutes.
    _files(LaunchJob(name=name, engine=engine, platform=target.platform, target=target.name, hosts=hosts,
                     devices=devices, remote_folder=request.remote_folder, recipe_digest="", plan="", file_notes=()),
                     request)
    picked = pick(loaded, request)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Next to its last place, so that the rename stays within one file system.
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent) as place:
        new_folder = Path(place) / "made"
        new_folder.mkdir()
        file_notes = write_recipe(loaded, picked.target.platform, new_folder, request.remote_folder)
        job = LaunchJob(name=name, engine=engine, platform=picked.target.platform, target=picked.target.name,
                        hosts=picked.hosts, devices=picked.devices, remote_folder=request.remote_folder,
                        # Read back from the file: the digest is of what the other machine will read.
                        recipe_digest=json_digest(load_recipe(str(new_folder / RECIPE)).resolved()),
                        plan=_sentence(picked), file_notes=file_notes,
                        topology=picked.target.topology.partition(":")[2],
                        stores=any(is_stored(name) for _, _, name in recipe_paths(
                            loaded.recipe.model_dump(mode="json"))))
        texts = _files(job, request)
        first = next(iter(texts))
        texts[PLAN] = json.dumps(picked.plan.to_json(), indent=2) + "\n"
        if request.wheel is not None:
            shutil.copyfile(request.wheel, new_folder / request.wheel.name)
        for name, text in texts.items():
            (new_folder / name).write_text(text, encoding="utf-8")
        # As a whole or not at all: a folder without its last file would look finished.
        new_folder.rename(folder)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return LaunchResult(job=job, plan=picked.plan, files=tuple(names), folder=folder,
                    start=f"{START[request.launcher]} {first}")


def pick(loaded: LoadedRecipe, request: LaunchRequest) -> PickedMachine:
    """The first machine, from the smallest, on which the recipe fits and its plan is not marginal."""
    seen = []
    for target, hosts, devices in candidates(request):
        plan = plan_target(loaded, target, nearest=False)
        # A marginal fit is no fit here: who queues for hours should not run out of memory in the first step.
        if plan.verdict.fits and not plan.verdict.marginal:
            return PickedMachine(plan=plan, target=target, hosts=hosts, devices=devices)
        seen.append(f"{hosts} x {devices} x {target.name}: {gib(plan.verdict.peak_bytes)} of "
                    f"{gib(plan.verdict.limit_bytes)} a device")
    raise RequestError(f"--on {request.target}, where this recipe does not fit ({'; '.join(seen)})",
                       "a machine that is large enough, with room to spare",
                       "workings plan, which looks for the nearest plan that fits")


def candidates(request: LaunchRequest) -> Iterator[tuple[Target, int, int]]:
    """Machines to try: the target as one machine, its hosts, and the devices of a host."""
    family = [target for target in targets().values() if target.platform == "tpu"
              and target.name.rsplit("-", 1)[0] == request.target.strip().lower() and target.slices == 1]
    rows = sorted(family, key=lambda target: target.chips) or [find_target(request.target)]
    if rows[0].slices > 1:
        raise RequestError(f"--on {rows[0].name}, which is several slices", "one slice: no job of several is written",
                           f"--on {rows[0].name.partition('x')[0]}")
    if rows[0].platform == "tpu":
        if request.hosts or request.cards:
            raise RequestError("--hosts or --cards with a TPU", "a slice, which says how many hosts it has",
                               "--on v5e-16, or --on v5e for the smallest slice that fits")
        for target in rows:
            devices = target.devices if target.chips <= 8 else CHIPS_OF_A_HOST * target.devices // target.chips
            yield target, target.devices // devices, devices
        return
    target, = rows
    cards = request.cards or target.devices
    if target.platform == "cpu":
        # Every process holds at most what one alone would, which is what can be planned here.
        yield target, request.hosts or 1, 1
        return
    for hosts in (request.hosts,) if request.hosts else NODES:
        # Partitions x hosts x cards, as the compiler wants it.
        yield replace(target, devices=hosts * cards, chips=hosts * cards, topology=f"1x{hosts}x{cards}"), hosts, cards


def write_recipe(loaded: LoadedRecipe, platform: str, folder: Path, remote_folder: str) -> tuple[str, ...]:
    """Writes `recipe.yaml` for the other machine and copies the files that it names; a note for each."""
    values: dict[str, Any] = json.loads(loaded.recipe.model_dump_json(exclude_unset=True))
    # Named, so that a job that got no accelerator fails instead of training on the CPU.
    values["device"] = platform
    file_notes = []
    for section, key, name in recipe_paths(values):
        recipe_key = f"{section}.{key}".strip(".")
        path = loaded.path(name)
        if path.is_file():
            (folder / DATA).mkdir(exist_ok=True)
            copied_name = f"{DATA}/{recipe_key.replace('.', '-')}{path.suffix}"
            shutil.copyfile(path, folder / copied_name)
            (values[section] if section else values)[key] = copied_name
            file_notes.append(f"{recipe_key}: {remote_folder}/{copied_name}, copied from here")
        elif path.exists():
            raise RequestError(f"{recipe_key}: {name}, a folder of this machine", "weights and tokenizers that the "
                               "other machine reaches: a Hub id, or an absolute path there",
                               f"{recipe_key}=google/gemma-2b")
        else:
            file_notes.append(f"{recipe_key}: {name}, by this name there as here")
    if any(".py:" in str(reward.get("scorer", "")) for reward in values.get("rewards", [])):
        raise RequestError("a reward in a file of your own, with launch", "a reward of ours or of an installed "
                           "package", "install the reward as a package in the image")
    head = f"# {Path(loaded.origin).name}, as it is started on another machine by `workings launch`."
    (folder / RECIPE).write_text(
        head + "\n" + yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return tuple(file_notes)


def _files(job: LaunchJob, request: LaunchRequest) -> dict[str, str]:
    # Refused rather than ignored: who gives an option expects the job to use it.
    of = {"--image": ("kubernetes", request.image), "--storage": ("skypilot", request.storage),
          "--wheel": ("skypilot", request.wheel)}
    for option, (launcher, value) in of.items():
        if value and launcher != request.launcher:
            raise RequestError(f"{option} with --for {request.launcher}, which does not read it",
                               f"it with --for {launcher}", f"without {option}")
    if request.launcher == "slurm":
        return slurm(job)
    if request.launcher == "kubernetes":
        return kubernetes(job, image=request.image, claim=request.volume_claim)
    if request.wheel is None or not re.fullmatch(r"workings-[A-Za-z0-9._+-]+\.whl", request.wheel.name) or (
            not zipfile.is_zipfile(request.wheel)):
        raise RequestError(f"--for skypilot with --wheel {request.wheel or '(none)'}", "this package's wheel: a rented "
                           "machine comes without it, and installs it by its digest",
                           "make dist, then --wheel dist/workings-….whl")
    return skypilot(job, storage=request.storage,
                    wheel=Wheel(name=request.wheel.name, sha256=file_digest(request.wheel)))


def _name(recipe: str) -> str:
    """A recipe's name as a job's: what Kubernetes does not take becomes a dash."""
    # At most 40 characters: launchers append to it, and Kubernetes allows 63.
    return "".join(letter if letter.isalnum() else "-" for letter in recipe.lower()).strip("-")[:40]


def _sentence(picked: PickedMachine) -> str:
    plan, processes = picked.plan, picked.hosts * picked.devices
    # Of several CPUs one process is planned, see `candidates`.
    alone = "" if picked.target.devices == processes else (
        f" Planned for one process alone: {processes} take {processes} times these rows where the mesh is auto.")
    return (f"{gib(plan.verdict.peak_bytes)} of {gib(plan.verdict.limit_bytes)} a device ({plan.verdict.source}); "
            f"mesh fsdp={plan.mesh.fsdp} tp={plan.mesh.tp}; {' x '.join(map(str, plan.batch))} tokens "
            f"an update.{alone}")
