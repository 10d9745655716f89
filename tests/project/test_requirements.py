"""Constraints: exact pins, no addresses, everything that `pyproject.toml` names."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LINES = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
         if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_line_is_one_exact_pin_without_an_address():
    for line in LINES:
        requirement = Requirement(line)
        assert requirement.url is None, line
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), f"{line}: no local build, no range"


def test_every_dependency_is_pinned_within_its_range():
    pins = {canonicalize_name(Requirement(line).name): str(Requirement(line).specifier)[2:] for line in LINES}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        requirement = Requirement(text)
        if requirement.name != "workings":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text


def test_the_core_and_the_jax_extra_name_no_other_framework():
    texts = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["jax"]]
    names = {canonicalize_name(Requirement(text).name) for text in texts}
    assert names & {"torch", "transformers", "flax", "google-tunix", "datasets", "pandas"} == set()
