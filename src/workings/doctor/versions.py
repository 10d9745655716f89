"""Do the installed libraries go together? From what they declare themselves."""

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
"""Packages that JAX names in its extras only, and the hardware that they drive."""


def declared(name: str) -> list[str]:
    """Requirements of an installed package."""
    return metadata.requires(name) or []


def check_versions(present: Mapping[str, str]) -> Iterator[Finding]:
    """Findings about pairs of packages.

    Args:
        present: accelerators of this machine; a plugin for hardware that is not here is worth a note only.
    """
    seen = 0
    for name in filter(installed_version, DECLARING_PACKAGES):
        for requirement in map(Requirement, declared(name)):
            other = requirement.name.lower().replace("_", "-")
            # An extra that no one asked for says nothing, but for JAX's plugins, which appear in its extras only.
            of_an_extra = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            if of_an_extra and (name != "jax" or other not in PLATFORM_OF_PLUGIN):
                continue
            if not (installed := installed_version(other)):
                continue
            seen += 1
            # Pre-releases count: this is about what is installed, not about what pip would choose.
            if requirement.specifier.contains(installed, prereleases=True):
                continue
            # A plugin for a device that is not here is still used to compile plans for one.
            used = PLATFORM_OF_PLUGIN.get(other, "cpu") in {"cpu", *present}
            wanted, have = f"{other}{requirement.specifier}", f"{name} {installed_version(name)}"
            yield Finding(
                id=f"versions.{other}", what=f"{other} {installed} next to {have}, which asks for {wanted}",
                # A newer TPU runtime usually still serves an older JAX; whether it does is what the kernel shows.
                judgement="problem" if used and other != "libtpu" else "note",
                why=f"{have} was released for {wanted}; " + (
                    "another one may fail to load, or compile another program" if used else
                    "on this machine, which has no such device, it compiles plans only"),
                mend=pip_install(wanted, extra=False) if used else "")
    yield Finding(id="versions", judgement="fine", why="libraries that do not fit fail in the middle of a run",
                  what=f"{seen} version requirements of installed libraries on each other were checked")
