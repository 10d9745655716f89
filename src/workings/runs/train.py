"""`train`: prepare, check the memory, record the request, train, seal."""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.recipe import Recipe
from workings.config.sampler import samplers
from workings.config.section import choice_name
from workings.distributed.process_group import ProcessGroup, facts_of
from workings.errors import DoesNotFit, RequestError
from workings.inputs.datasets import find_data
from workings.inputs.gguf import origin_facts
from workings.inputs.resolve import fetch_tensors, weight_digests
from workings.models.unverified import unverified_sentence
from workings.record import layout
from workings.record.digest import json_digest
from workings.record.layout import partial_path, refuse_unit_name
from workings.record.manifest import CONVERTED_FROM, DRAWN_FROM, LEFT_ASIDE, UNVERIFIED_MODEL
from workings.record.metrics import Callback
from workings.record.progress import slow_operation
from workings.record.reader import RunRecord
from workings.record.recovery import sealed_to_resume
from workings.record.writer import refuse_taken
from workings.runs.attempt import Attempt
from workings.runs.choices import with_choices
from workings.runs.create_or_resume import has_checkpoint, refuse_other_request
from workings.runs.doctor import doctor
from workings.runs.memory_check import memory_before, refusal
from workings.runs.prepare import TrainSetup, prepare
from workings.runs.run_metadata import data_digests, request_of
from workings.runs.smoke import shrink, truncate
from workings.runs.train_result import TrainResult
from workings.training.stopping import StopRequest
from workings.ways.parts.row_data import PairData
from workings.ways.parts.teacher import refuse_processes

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Beginning of an address such as ``s3://bucket``; a single letter is a Windows drive."""


def train(recipe: str | LoadedRecipe, out: Path, overrides: Sequence[str] = (), *, resume: bool = False,
          smoke: int = 0, force: bool = False, on_step: Callback = lambda line: None,
          group: ProcessGroup | None = None) -> TrainResult:
    """Trains a recipe and seals the record. The result keeps the final state for an evaluation.

    Only process 0 uses the run directory. The others return when process 0 has left the group.

    Args:
        recipe: a file, a shipped recipe's name, or a loaded recipe.
        out: the run directory; it must not exist (with ``resume``: a run that did not finish).
        overrides: ``key=value`` words.
        resume: continue a killed, interrupted or failed run after its last checkpoint.
        smoke: steps of a run with a tiny model; 0: the recipe as it is.
        force: run even if the plan says that it does not fit; this is recorded.
        on_step: is called for every step in process 0; False asks for a stop.
        group: processes that train and stay together; None: those that a launcher started.

    Raises `RequestError` if the request is wrong, and `DoesNotFit`, which names the nearest plan that fits.
    """
    loaded = with_choices(load_recipe(recipe, overrides))
    with nullcontext(group) if group else ProcessGroup.of(loaded.recipe.engine) as processes:
        setup = prepare_to_train(processes, loaded, out, resume=resume, smoke=smoke, force=force)
        facts = _manifest_facts(setup, smoke)
        checks = _agree(processes, setup)
        # From here on a signal is a request to stop. Before, it ends the process, because nothing has to be saved.
        with StopRequest() as stop:
            if not processes.is_coordinator:
                shared = processes.work(setup.engine, setup.weights.directory, lambda: stop.requested)
                return TrainResult(**shared, run=out, setup=setup, process=processes.index)
            setup = replace(setup, engine=processes.coordinate(setup.engine), device_check=_all_checks(checks))
            # The engine has already run a kernel and compared it with NumPy.
            with slow_operation("looking at this machine"):
                examination = doctor(setup.loaded, out=out.parent, kernels=False)
            attempt = Attempt.begin(setup, out, resume, examination)
            writer = attempt.writer
            # Now, because after compiling and before the first weight the memory is that of compiler and libraries.
            writer.write_json(layout.MEASURED, memory_before(setup))
            try:
                outcome = attempt.take_steps(on_step, stop, processes)
                result = attempt.seal(outcome, facts)
            except RequestError:
                # Broken weights or rewards: after a fix the same command works.
                if not attempt.resumed:
                    writer.discard()
                raise
            finally:
                writer.close()  # no effect after sealing; after an error the folder is kept for a resume
        return _sent_to_workers(processes, result)


def prepare_to_train(processes: ProcessGroup, loaded: LoadedRecipe, out: Path, *, resume: bool, smoke: int,
                     force: bool) -> TrainSetup:
    """Prepares a run, refuses it if it does not fit, and downloads its tensors. Raises as `train`."""
    if processes.is_coordinator:
        _check_out(out, resume)
    setup = _prepared(processes, loaded, smoke)
    # The search for a plan compiles up to four candidates, so one process does it for all.
    if not setup.verdict.fits and (not force or setup.inspection.refused):
        raise refusal(setup) if processes.is_coordinator else DoesNotFit("; ".join(setup.verdict.reasons))
    # Only now, because a run that does not fit need not download tensors.
    fetch_tensors(setup.weights)
    return setup


def _agree(processes: ProcessGroup, setup: TrainSetup) -> list[dict[str, Any]]:
    """Checks that all processes prepared the same run; returns their device checks. Raises as `ProcessGroup.agree`."""
    # A process with other rows, weights or versions would train silently wrong.
    must_agree = facts_of(setup.engine) | {"recipe": setup.config, "data": data_digests(setup),
                                           "workings": version("workings")}
    own: dict[str, Any] = dict(setup.device_check)
    if processes.count > 1 and setup.weights.directory is not None:
        with slow_operation("hashing the weights"):
            must_agree["weights"] = weight_digests(setup.weights.directory)
        own["weights"] = json_digest(must_agree["weights"])
    # Separately, because `own` is recorded and the name of a host is not. After a refusal here, the other processes
    # stop while they wait for the second agreement.
    hosts = processes.agree({}, {"host": socket.gethostname()})
    refuse_sampling_over_hosts(setup.recipe, setup.device.mesh, [each["host"] for each in hosts])
    return processes.agree(must_agree, own)


def refuse_sampling_over_hosts(recipe: Recipe, mesh: Mapping[str, int], hosts: Sequence[str]) -> None:
    """Raises `RequestError` for rollouts of a model that is split over hosts: answers would gather all weights.

    ``hosts``: name of each process's host. The processes of a copy of the model follow each other: with two copies,
    processes 0 and 1 of 4 hold the first one.
    """
    copy_size = max(1, len(hosts) // mesh.get("replicate", 1))
    is_split = any(len({*hosts[first:first + copy_size]}) > 1 for first in range(0, len(hosts), copy_size))
    if is_split and recipe.algorithm.examples == "prompts" and recipe.sampler is None:
        number = len({*hosts})
        other = f"sampler.name={' or '.join(map(choice_name, samplers()))}"
        raise RequestError(f"algorithm.name: {recipe.algorithm.name} would sample from a model that is split over "
                           f"{number} hosts",
                           "a sampler of its own, or a copy of the model on each host: to write answers, all weights "
                           "would go over the network", f"{other}, or mesh.replicate={number}")


def _sent_to_workers(processes: ProcessGroup, result: TrainResult) -> TrainResult:
    """The result. The other processes, which have no record, receive it when process 0 leaves the group."""
    processes.outcome = {"status": result.status, "reason": result.reason, "steps": result.steps}
    return result


def trained_before(processes: ProcessGroup, loaded: LoadedRecipe, out: Path, smoke: int) -> TrainResult:
    """The result of a sealed run whose evaluation was interrupted, without its state. Nothing is written.

    Raises `RequestError` if the request differs from that of the run.
    """
    setup = _prepared(processes, loaded, smoke)
    fetch_tensors(setup.weights)
    _agree(processes, setup)
    setup = replace(setup, engine=processes.coordinate(setup.engine))
    refuse_other_request([out], request_of(setup), setup.device.mesh)
    run = RunRecord.open(out)
    manifest = run.manifest
    return _sent_to_workers(processes, TrainResult(
        status=manifest.status, reason=manifest.status_reason, steps=manifest.completed_steps, run=out, setup=setup,
        metrics=run.metrics()))


def _prepared(processes: ProcessGroup, loaded: LoadedRecipe, smoke: int) -> TrainSetup:
    if processes.count > 1:
        refuse_processes(loaded.recipe)
    # Shrink first, because tokenizer and batch change.
    if smoke:
        loaded = shrink(loaded, smoke)
    data = find_data(loaded)
    return prepare(loaded, truncate(data) if smoke else data)


def _manifest_facts(setup: TrainSetup, smoke: int) -> dict[str, Any]:
    """Fields of the manifest that are known before the first step; the tensors must be on this machine."""
    facts: dict[str, Any] = {"smoke": smoke > 0}
    if isinstance(setup.training_data, PairData):
        facts["pairs"] = setup.training_data.pairs
    if not setup.shape.verified:
        facts[UNVERIFIED_MODEL] = unverified_sentence(setup.shape.family)
    if sources := setup.data.drawn_from:
        facts[DRAWN_FROM] = sources
    if setup.non_text_weights is not None:
        facts[LEFT_ASIDE] = setup.non_text_weights.to_json()
    origin = None if setup.weights.directory is None else origin_facts(setup.weights.directory)
    if origin:
        facts[CONVERTED_FROM] = origin
    return facts


def _all_checks(checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The device checks of all processes as one: every device by its name, the largest of the differences."""
    # The first one is that of process 0, which writes the record.
    own = checks[0]
    if len(checks) == 1:
        return {**own, "processes": 1}
    devices = [f"{name} of process {index}" for index, check in enumerate(checks) for name in check["devices"]]
    worst = max(check["max_difference_to_numpy"] for check in checks)
    # Equal in all processes, as `agree` checked; recorded for each process.
    weights = {"weights": [check["weights"] for check in checks]} if "weights" in own else {}
    return {**own, "processes": len(checks), "devices": devices, "max_difference_to_numpy": worst, **weights}


def _check_out(out: Path, resume: bool) -> None:
    """Refuses early a run directory that cannot be made or resumed; `RunWriter` checks again."""
    # `Path` has made one slash of two.
    if ADDRESS.match(str(out)):
        address = str(out).replace(":/", "://", 1)
        raise RequestError(f"--out {address} is an address, not a folder", "a folder",
                           "a folder; copy the finished run to the object store, or mount the store as a folder")
    if resume:
        if not partial_path(out).is_dir():
            sealed_to_resume(out)
        return
    refuse_unit_name(out)
    if out.exists():
        # A run that failed before its first checkpoint cannot be resumed.
        can_resume = has_checkpoint(out) or not (out / layout.SEAL).is_file()
        way_on = ", or add --resume if that run did not finish" if can_resume else ""
        raise RequestError(f"--out {out} already exists", "a directory that does not exist yet",
                           f"choose another --out{way_on}")
    refuse_taken(out)
    # `lexists`, because a broken link blocks it too; the nearest existing parent decides.
    parent = next(parent for parent in out.absolute().parents if os.path.lexists(parent))
    try:
        # `os.access` allows root everything, also in /proc and on a read-only disk.
        TemporaryDirectory(dir=parent).cleanup()
    except OSError as error:
        raise RequestError(f"--out {out}: no folder can be created in {parent} ({error.strerror})",
                           "a path in a writable folder", "choose another --out") from None
