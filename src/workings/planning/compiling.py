"""The compiler's word about a step, for a machine that is not here; kept in a cache by a digest of all that went in."""

import hashlib
import json
import os
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from workings.engines.base import EngineRequest, Inspection
from workings.engines.jax.target import TpuTarget, compile_for
from workings.errors import WorkingsError
from workings.hardware.catalog import Target
from workings.record.atomic import write_json
from workings.record.digest import json_digest


def compile_tpu(request: EngineRequest, batch: tuple[int, int, int], target: Target) -> Inspection:
    """The JAX engine's own step compiled for a TPU of the catalog; from the cache where it was asked before.

    Raises:
        RequestError: the request is wrong, or libtpu is not installed.
        WorkingsError: the compiler crashed, or what it compiled is not the split program that was asked for.
    """
    place = cache_directory() / f"{_digest(request, batch, target)}.json"
    if place.is_file():
        kept = json.loads(place.read_text(encoding="utf-8"))
        kept["details"]["cached"] = True
        return Inspection(**kept)
    found = compile_for(request, batch, TpuTarget(topology=target.topology, accelerator_type=target.accelerator_type,
                                                  options=target.topology_options))
    check_split(found, batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, asdict(found))
    return found


def check_split(found: Inspection, batch: tuple[int, int, int]) -> None:
    """Each device's program must hold its own share of the rows.

    A library that asks for the host's platform while tracing can leave a batch whole without a word; the verdict would
    be about a program that no TPU runs. Raises `WorkingsError` then.
    """
    if "refused" in found.details:
        return
    expected = [batch[0], batch[1] // found.details["mesh"]["fsdp"], batch[2]]
    if list(found.details["tokens_per_device"]) != expected:
        raise WorkingsError(f"the compiled program takes tokens {found.details['tokens_per_device']} on each device; "
                            f"{expected} were expected, so this is not the program that would run")


def cache_directory() -> Path:
    """Where verdicts are kept: ``WORKINGS_CACHE``, or the person's cache directory."""
    own = os.environ.get("WORKINGS_CACHE")
    base = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workings"
    return base / "plans"


def _digest(request: EngineRequest, batch: tuple[int, int, int], target: Target) -> str:
    return json_digest({
        "shape": asdict(request.shape), "seed": request.seed, "optimizer": request.optimizer.model_dump(),
        "precision": request.precision.model_dump(), "memory": request.memory.model_dump(),
        "mesh": request.mesh.model_dump(), "method": request.method.model_dump(),
        "batch": list(batch), "topology": target.topology,
        "options": dict(target.topology_options), "versions": _versions(), "engine": _engine_digest(),
        "flags": {name: os.environ[name] for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS") if name in os.environ},
    })


def _versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxlib", "libtpu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _engine_digest() -> str:
    """Digest of the engine's own source: a changed step is another program."""
    digest = hashlib.sha256()
    for folder in ("workings.engines.jax", "workings.models"):
        for entry in sorted(files(folder).iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                digest.update(entry.name.encode() + b"\0" + entry.read_bytes())
    return digest.hexdigest()


