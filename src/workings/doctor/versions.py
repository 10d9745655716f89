"""Do the installed libraries fit each other, by the requirements that they declare?"""

from collections.abc import Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement

from workings.doctor.finding import Finding
from workings.hints import pip_install
from workings.record.environment import installed_version

DECLARING_PACKAGES = ("jax", "jaxlib", "flax", "google-tunix", "qwix", "optax", "torch", "transformers", "peft",
                      "accelerate", "bitsandbytes")
"""Packages whose own requirements are read."""
PLATFORM_OF_PLUGIN = {"libtpu": "tpu", "jax-cuda12-plugin": "gpu", "jax-cuda13-plugin": "gpu", "jax-cuda12-pjrt": "gpu",
                      "jax-cuda13-pjrt": "gpu"}
"""Packages that JAX requires in its extras only -> hardware that they are for."""


def declared(name: str) -> list[str]:
    """Requirements of an installed package."""
    return metadata.requires(name) or []


def check_versions(present: Mapping[str, str]) -> Iterator[Finding]:
    """A finding for each requirement that is not met, and one about all; ``present``: this machine's accelerators."""
    seen = 0
    for name in filter(installed_version, DECLARING_PACKAGES):
        for requirement in map(Requirement, declared(name)):
            other = requirement.name.lower().replace("_", "-")
            # Requirements of extras may not apply; those of JAX's plugins do.
            of_an_extra = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            is_plugin = name == "jax" and other in PLATFORM_OF_PLUGIN
            installed = installed_version(other)
            if not installed or (of_an_extra and not is_plugin):
                continue
            seen += 1
            if requirement.specifier.contains(installed, prereleases=True):
                continue
            # A plugin for a device that is not here is still used to compile plans for one.
            used = PLATFORM_OF_PLUGIN.get(other, "cpu") in {"cpu", *present}
            wanted, have = f"{other}{requirement.specifier}", f"{name} {installed_version(name)}"
            effect = ("another one may fail to load, or compile another program" if used else
                      "on this machine, which has no such device, it compiles plans only")
            yield Finding(
                id=f"versions.{other}", what=f"{other} {installed} next to {have}, which asks for {wanted}",
                # A newer TPU runtime usually works with an older JAX; the kernel shows whether it does.
                judgement="problem" if used and other != "libtpu" else "note",
                why=f"{have} was released for {wanted}; {effect}",
                mend=pip_install(wanted, extra=False) if used else "")
    yield Finding(id="versions", judgement="fine", why="libraries that do not fit fail in the middle of a run",
                  what=f"{seen} version requirements of installed libraries on each other were checked")
