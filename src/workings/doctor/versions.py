"""Do the installed libraries go together? From what they declare themselves, and from `known_conflicts.json`."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import metadata
from importlib.resources import files
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from workings.doctor.finding import Finding
from workings.hints import pip_install

DECLARING_PACKAGES = ("jax", "jaxlib", "flax", "google-tunix", "qwix", "optax", "torch", "transformers", "peft",
                      "accelerate",
             "bitsandbytes")
"""Packages whose own requirements are read."""
PLATFORM_OF_PLUGIN = {"libtpu": "tpu", "jax-cuda12-plugin": "gpu", "jax-cuda13-plugin": "gpu", "jax-cuda12-pjrt": "gpu",
           "jax-cuda13-pjrt": "gpu"}
"""Packages that JAX names in its extras only, and the hardware that they drive."""

Installed = Callable[[str], str]
Requires = Callable[[str], list[str]]


def installed_version(name: str) -> str:
    """Version of an installed package; empty where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def declared(name: str) -> list[str]:
    """Requirements of an installed package."""
    try:
        return list(metadata.requires(name) or [])
    except metadata.PackageNotFoundError:
        return []


@cache
def known_conflicts() -> list[dict[str, Any]]:
    """Pairs that do not work together although their metadata allows it; a source on every row."""
    rows: list[dict[str, Any]] = json.loads(
        files("workings.doctor").joinpath("known_conflicts.json").read_text("utf-8"))["conflicts"]
    return rows


def check_versions(present: Mapping[str, str], version: Installed = installed_version,
                   requires: Requires = declared) -> Iterator[Finding]:
    """Findings about pairs of packages.

    Args:
        present: accelerators of this machine; a plugin for hardware that is not here is worth a note only.
        version: how to learn an installed version (tests give a table).
        requires: how to learn what a package declares.
    """
    version = cache(version)  # the same few packages are asked for hundreds of times, each time from the disk
    seen = 0
    for name in DECLARING_PACKAGES:
        if not version(name):
            continue
        for text in requires(name):
            requirement, extra = _read(text)
            other = requirement.name.lower().replace("_", "-")
            # An extra that no one asked for says nothing, but for JAX's plugins, which appear in its extras only.
            if extra and (name != "jax" or other not in PLATFORM_OF_PLUGIN):
                continue
            if not (have := version(other)):  # looked up last: that reads a file
                continue
            seen += 1
            # Pre-releases count as versions: what is installed is to be judged, not what pip would choose.
            if not requirement.specifier.contains(have, prereleases=True):
                yield _declared_conflict(name, version(name), other, have, requirement.specifier, present)
    for row in known_conflicts():
        package, other = row["package"], row["with"]
        if version(package) and version(other) and SpecifierSet(row["package_versions"]).contains(version(package)) \
                and SpecifierSet(row["with_versions"]).contains(version(other)):
            yield Finding(id=f"versions.{package}", judgement="problem" if row["stops"] else "note",
                          what=f"{package} {version(package)} does not work with {other} {version(other)}",
                          why=row["why"],
                          mend=row["mend"])
    yield Finding(id="versions", judgement="fine", why="libraries that do not fit fail in the middle of a run",
                  what=f"{seen} version requirements of installed libraries on each other were checked")


@cache
def _read(text: str) -> tuple[Requirement, bool]:
    """A requirement, and whether it holds for an extra only; each text is parsed once."""
    requirement = Requirement(text)
    return requirement, requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})


def _declared_conflict(name: str, have: str, other: str, installed: str, specifiers: SpecifierSet,
                       present: Mapping[str, str]) -> Finding:
    # A plugin for a device that is not here is still used to compile plans for one.
    used = PLATFORM_OF_PLUGIN.get(other, "cpu") in {"cpu", *present}
    why = f"{name} {have} was released for {other}{specifiers}; " + (
        "another one may fail to load, or compile another program" if used else
        "on this machine, which has no such device, it compiles plans only")
    # A newer TPU runtime usually still serves an older JAX; whether it does is what the kernel shows.
    stops = used and other != "libtpu"
    return Finding(id=f"versions.{other}", judgement="problem" if stops else "note",
                   what=f"{other} {installed} next to {name} {have}, which asks for {other}{specifiers}", why=why,
                   mend=pip_install(f"{other}{specifiers}", extra=False) if used else "")
