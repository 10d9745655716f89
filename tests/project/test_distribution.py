"""Wheel and sdist: complete, and they work in an environment that has nothing else."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

pytestmark = pytest.mark.installs


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, env=os.environ | environment, capture_output=True,
                          text=True, check=False)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def tracked(folder: str) -> set[str]:
    done = run("git", "ls-files", folder, cwd=ROOT)
    if done.returncode:
        pytest.skip("not a git checkout: there is no list of tracked files to compare with")
    return {line for line in done.stdout.splitlines() if (ROOT / line).exists()}


def test_wheel_holds_every_tracked_file_of_the_package_and_the_license(distributions):
    [wheel] = distributions.glob("workings-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.removeprefix("src/") for name in tracked("src/workings")} - names == set()
    version = PYPROJECT["project"]["version"]
    assert {f"workings-{version}.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")} <= names
    assert [name for name in names if not name.startswith(("workings/", f"workings-{version}.dist-info/"))] == []


def test_sdist_holds_package_tests_and_docs(distributions):
    [sdist] = distributions.glob("workings-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = tracked("src") | tracked("tests") | tracked("docs") | tracked("tools")
    assert wanted - names == set()
    assert {"pyproject.toml", "constraints.txt", "LICENSE", "README.md", "Makefile"} <= names


def core_dependencies(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The installed packages that these ask for, and those that they ask for in turn, by name."""
    found: dict[str, Distribution] = {}
    left = list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
        if wanted and name not in found:
            found[name] = distribution(name)
            left += found[name].requires or []
    return found


def pip(programs: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check", *words,
               cwd=programs)


@pytest.fixture(scope="module", params=[
    "links", pytest.param("an index", marks=pytest.mark.full)])
def installed(request, distributions, tmp_path_factory) -> Path:
    """An environment with the wheel and its core dependencies only, which are links to what is installed here or come
    from an index; returns its folder of programs."""
    folder = tmp_path_factory.mktemp("empty")
    assert run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder).returncode == 0
    programs = folder / "venv/bin"
    [wheel] = distributions.glob("workings-*.whl")
    if request.param == "links":
        [site] = folder.glob("venv/lib/python*/site-packages")
        for package in core_dependencies(PYPROJECT["project"]["dependencies"]).values():
            for name in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
                (site / name).symlink_to(package.locate_file(name))
    done = pip(programs, "install", "--quiet", "--no-compile", *(
        ["--no-index", "--no-deps"] if request.param == "links" else ["-c", ROOT / "constraints.txt"]), wheel)
    offline = re.search(r"NewConnectionError|NameResolution|No matching distribution", done.stderr)
    if done.returncode and request.param != "links" and offline and "CI" not in os.environ:
        pytest.skip(f"no package index in reach, so nothing was installed: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return programs


@pytest.mark.parametrize("start", [("workings",), ("python", "-m", "workings")], ids=" ".join)
def test_installed_program_starts(start, installed, tmp_path):
    done = run(installed / start[0], *start[1:], "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "quickstart" in done.stdout
    done = run(installed / start[0], *start[1:], "recipes", "show", "quickstart", cwd=tmp_path)
    assert done.stdout.strip() == (ROOT / "src/workings/config/recipes/quickstart.yaml").read_text("utf-8").strip()


def test_core_installs_no_framework_and_is_consistent(installed):
    done = pip(installed, "list", "--format=freeze")
    names = {line.partition("==")[0].lower() for line in done.stdout.splitlines()}
    assert "workings" in names
    assert names & {"jax", "jaxlib", "torch", "transformers", "pandas", "flax", "google-tunix"} == set()
    assert pip(installed, "check").returncode == 0
