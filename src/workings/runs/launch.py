"""`launch`: writes a folder of files that start a run on another machine, which the planner picks.

The folder has the recipe, its plan, copies of the data files, and the job's script for the launcher.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.recipe_paths import recipe_paths
from workings.errors import RequestError
from workings.hardware.catalog import Target, find_target, targets
from workings.hardware.memory import gib
from workings.inputs.object_store import is_stored
from workings.launching.files import PLAN, RECIPE, START, LaunchJob, Wheel, kubernetes, skypilot, slurm
from workings.planning.plan import Plan
from workings.record import atomic
from workings.record.digest import file_digest, json_digest
from workings.runs.choices import with_choices
from workings.runs.plan import plan_target

Launcher = Literal["slurm", "kubernetes", "skypilot"]
NODES = (1, 2, 4, 8, 16)
"""Numbers of hosts with cards to try by default."""
CHIPS_OF_A_HOST = 4
"""Chips per host of a larger TPU slice; slices of up to eight chips have one host."""
DATA = "data"


class Machine(NamedTuple):
    """Where a job could run."""

    target: Target
    """All its hosts as one machine."""
    hosts: int
    devices: int
    """Cards or chips of one host."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """Request for `launch`, in addition to the recipe."""

    launcher: Launcher
    target: str
    """A target of the catalog, or a TPU family (`v5e`) for its smallest slice that fits."""
    remote_folder: str
    hosts: int = 0
    """0: the planner picks."""
    cards: int = 0
    """Per host; 0: as many as the target has."""
    name: str = ""
    image: str = ""
    volume_claim: str = ""
    storage: str = ""
    wheel: Path | None = None
    """This package's wheel, for rented machines."""


@dataclass(frozen=True, kw_only=True)
class LaunchResult:
    """A folder that was written."""

    job: LaunchJob
    plan: Plan
    files: tuple[str, ...]
    folder: Path
    start: str
    """The command to run in the folder on the other machine."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``launch --json``."""
        return {"folder": str(self.folder), "files": list(self.files), "target": self.job.target,
                "hosts": self.job.hosts, "devices": self.job.devices, "engine": self.job.engine,
                "recipe_sha256": self.job.recipe_digest, "plan": self.plan.to_json(), "start": self.start,
                "file_notes": list(self.job.file_notes), "validated": True, "run": False}


def launch(loaded: LoadedRecipe, request: LaunchRequest, folder: Path) -> LaunchResult:
    """Plans, chooses the machine, and writes the folder for its launcher. Raises `RequestError`."""
    if folder.exists():
        raise RequestError(f"--write {folder} already exists", "a folder that does not exist yet", "another name")
    smallest = next(candidates(request))
    loaded = with_choices(loaded, smallest.target)
    # Kubernetes takes no other characters, and at most 63, to which launchers append some.
    letters = (letter if letter.isalnum() else "-" for letter in loaded.recipe.name.lower())
    job = LaunchJob(
        name=request.name or "".join(letters).strip("-")[:40], engine=loaded.recipe.engine,
        platform=smallest.target.platform, target=smallest.target.name, hosts=smallest.hosts, devices=smallest.devices,
        remote_folder=request.remote_folder,
        stores=any(is_stored(name) for _, _, name in recipe_paths(loaded.recipe.model_dump(mode="json"))))
    # Report all errors of the request before compiling, which may take minutes.
    _files(job, request)
    machine, plan = pick(loaded, request)
    with atomic.new_folder(folder, "write") as new_folder:
        file_notes = write_recipe(loaded, machine.target.platform, new_folder, request.remote_folder)
        job = replace(job, target=machine.target.name, hosts=machine.hosts, devices=machine.devices,
                      file_notes=file_notes,
                      # Read back, because the other machine reads the file.
                      recipe_digest=json_digest(load_recipe(str(new_folder / RECIPE)).resolved()),
                      plan=_sentence(plan, machine), topology=machine.target.topology.partition(":")[2])
        texts = _files(job, request)
        start = f"{START[request.launcher]} {next(iter(texts))}"
        texts[PLAN] = json.dumps(plan.to_json(), indent=2) + "\n"
        if request.wheel is not None:
            shutil.copyfile(request.wheel, new_folder / request.wheel.name)
        for name, text in texts.items():
            (new_folder / name).write_text(text, encoding="utf-8")
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return LaunchResult(job=job, plan=plan, files=tuple(names), folder=folder, start=start)


def pick(loaded: LoadedRecipe, request: LaunchRequest) -> tuple[Machine, Plan]:
    """The smallest of the `candidates` on which the recipe fits with room to spare, and its plan there."""
    seen = []
    for machine in candidates(request):
        plan = plan_target(loaded, machine.target, nearest=False)
        # A job that waits for hours in a queue must not fail for a few bytes.
        if plan.verdict.fits and not plan.verdict.marginal:
            return machine, plan
        seen.append(f"{machine.hosts} x {machine.devices} x {machine.target.name}: {gib(plan.verdict.peak_bytes)} of "
                    f"{gib(plan.verdict.limit_bytes)} per device")
    raise RequestError(f"--on {request.target}: this recipe does not fit ({'; '.join(seen)})", "a larger machine",
                       "workings plan, which looks for the nearest plan that fits")


def candidates(request: LaunchRequest) -> Iterator[Machine]:
    """Machines to try, the smallest first: the slices of a TPU family, or growing numbers of hosts with cards."""
    family = [target for target in targets().values() if target.platform == "tpu"
              and target.name.rsplit("-", 1)[0] == request.target.strip().lower() and target.slices == 1]
    by_size = sorted(family, key=lambda target: target.chips) or [find_target(request.target)]
    target = by_size[0]
    if target.slices > 1:
        raise RequestError(f"--on {target.name} is several slices", "one slice, because a job uses a single slice",
                           f"--on {target.name.partition('x')[0]}")
    if target.platform == "tpu":
        if request.hosts or request.cards:
            raise RequestError("a TPU takes neither --hosts nor --cards", "a slice, which says how many hosts it has",
                               "--on v5e-16, or --on v5e for the smallest slice that fits")
        for each in by_size:
            devices = each.devices if each.chips <= 8 else CHIPS_OF_A_HOST * each.devices // each.chips
            yield Machine(each, each.devices // devices, devices)
    elif target.platform == "cpu":
        if request.cards:
            raise RequestError("--on cpu does not take --cards", "a machine with cards", "without --cards")
        # The plan is that of one process: with more of them, none needs more memory.
        yield Machine(target, request.hosts or 1, 1)
    else:
        cards = request.cards or target.devices
        for hosts in (request.hosts,) if request.hosts else NODES:
            # Partitions x hosts x cards, as the compiler wants it.
            topology = f"1x{hosts}x{cards}"
            yield Machine(replace(target, devices=hosts * cards, chips=hosts * cards, topology=topology), hosts, cards)


def write_recipe(loaded: LoadedRecipe, platform: str, folder: Path, remote_folder: str) -> tuple[str, ...]:
    """Writes `recipe.yaml` for the other machine and copies the files that it names; a note for each."""
    values: dict[str, Any] = json.loads(loaded.recipe.model_dump_json(exclude_unset=True))
    # Explicit, so that a job without an accelerator fails instead of using the CPU.
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
            raise RequestError(f"{recipe_key} is {name}, a folder of this machine", "weights and tokenizers that the "
                               "other machine reaches: a Hub id, or an absolute path there",
                               f"{recipe_key}=google/gemma-2b")
        else:
            file_notes.append(f"{recipe_key}: {name}, the same name on both machines")
    if any(".py:" in str(reward.get("scorer", "")) for reward in values.get("rewards", [])):
        raise RequestError("launch does not copy the file of a reward", "a shipped reward or one of an installed "
                           "package", "install the reward as a package in the image")
    head = f"# {Path(loaded.origin).name}, as it is started on another machine by `workings launch`.\n"
    (folder / RECIPE).write_text(head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return tuple(file_notes)


def _files(job: LaunchJob, request: LaunchRequest) -> dict[str, str]:
    """Texts of the launcher's files by name, the one to start first. Raises `RequestError` for a wrong option."""
    for option, launcher, value in (
            ("--image", "kubernetes", request.image), ("--storage", "skypilot", request.storage),
            ("--claim", "kubernetes", request.volume_claim), ("--wheel", "skypilot", request.wheel)):
        if value and launcher != request.launcher:
            raise RequestError(f"--for {request.launcher} does not take {option}",
                               f"it with --for {launcher}", f"without {option}")
    if request.launcher == "slurm":
        return slurm(job)
    if request.launcher == "kubernetes":
        return kubernetes(job, image=request.image, claim=request.volume_claim or "workings")
    wheel = request.wheel
    if wheel is None or not re.fullmatch(r"workings-[A-Za-z0-9._+-]+\.whl", wheel.name) or (
            not zipfile.is_zipfile(wheel)):
        raise RequestError(f"--wheel {wheel} is not this package's wheel" if wheel else "--for skypilot needs --wheel",
                           "this package's wheel: a rented machine comes without it, and installs it by its digest",
                           "make dist, then --wheel dist/workings-….whl")
    return skypilot(job, storage=request.storage, wheel=Wheel(name=wheel.name, sha256=file_digest(wheel)))


def _sentence(plan: Plan, machine: Machine) -> str:
    text = (f"{gib(plan.verdict.peak_bytes)} of {gib(plan.verdict.limit_bytes)} per device ({plan.verdict.source}); "
            f"mesh {plan.mesh.sizes()}; {' x '.join(map(str, plan.batch))} tokens per update.")
    processes = machine.hosts * machine.devices
    # Of several CPUs one process is planned, see `candidates`.
    if machine.target.devices != processes:
        text += f" Planned for one process: with mesh auto, {processes} processes take {processes} times these rows."
    return text
