"""The trace of the PyTorch engine's step for a card that is not here; cached by a digest of all that went in."""

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable

from workings.engines.base import EngineRequest, Inspection
from workings.engines.torch.trace.target import trace_for
from workings.hardware.catalog import Target
from workings.planning.compiling import cache_directory
from workings.planning.request import ProgramName, Programs
from workings.record.atomic import write_json
from workings.record.digest import json_digest

LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes", "accelerate")


def trace_gpu(request: EngineRequest, programs: Programs, target: Target) -> dict[ProgramName, Inspection]:
    """The PyTorch engine's own programs under fake tensors; from the cache where they were asked before.

    Args:
        request: what the engine is asked for.
        programs: of the run, with their sizes.
        target: a CUDA machine of the catalog.

    Raises:
        RequestError: the request is wrong, or PyTorch is not installed.
        WorkingsError: the trace failed.
    """
    place = cache_directory() / f"{_digest(request, programs, target)}.json"
    if place.is_file():
        kept = json.loads(place.read_text(encoding="utf-8"))
        return {name: Inspection(**(one | {"details": one["details"] | {"cached": True}}))
                for name, one in kept.items()}
    sizes: dict[str, tuple[int, int, int]] = {str(name): size for name, size in programs.items()}
    found = trace_for(request, sizes, target.platform, capability=target.compute_capability,
                      limit_bytes=target.memory_bytes)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, {name: asdict(one) for name, one in found.items()})
    return {name: found[name] for name in programs}


def _digest(request: EngineRequest, programs: Programs, target: Target) -> str:
    return json_digest({
        "request": request.to_json(), "programs": {**programs}, "platform": target.platform, "devices": target.devices,
        "capability": target.compute_capability, "limit_bytes": target.memory_bytes,
        "versions": {name: _version(name) for name in LIBRARIES},
        "engine": _source_digest(),
    })


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _source_digest() -> str:
    """Digest of the engine's own source: a changed step is another program."""
    digest = hashlib.sha256()
    for package in ("workings.engines.torch", "workings.models"):
        _add(digest, files(package))
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", folder: Traversable) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            _add(digest, entry)
        elif entry.name.endswith((".py", ".json")):
            digest.update(entry.name.encode() + b"\0" + entry.read_bytes())
