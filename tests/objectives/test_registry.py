"""Objectives by name: a file in this package is enough, and other packages bring theirs by an entry point."""

import sys
from pathlib import Path

import pytest

from workings import objectives
from workings.errors import RequestError
from workings.objectives.registry import find_objective, from_json, our_objectives, to_json

FOCAL = '''
from dataclasses import dataclass
from typing import ClassVar

from workings.objectives.base import Terms


@dataclass(frozen=True, kw_only=True)
class Focal:
    name: ClassVar[str] = "focal"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()
    gamma: float = 2.0

    def terms(self, array, log_probs_BS, mask_BS, signals):
        losses = -((1 - array.exp(log_probs_BS)) ** self.gamma) * log_probs_BS
        return Terms(total=(losses * mask_BS).sum())


OBJECTIVE = Focal
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files Python takes for files of `workings.objectives`, until the test ends."""
    monkeypatch.setattr(objectives, "__path__", [*objectives.__path__, str(tmp_path)])
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"workings.objectives.{path.stem}", None)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str) -> None:
    """As if a package were installed that brings `Focal` under a name."""
    (folder / f"{package}.py").write_text(FOCAL)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[workings.objectives]\n{name} = {package}:Focal\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("name", our_objectives())
def test_every_file_here_is_an_objective_of_its_name(name: str) -> None:
    objective = find_objective(name)()
    assert objective.name == name
    assert from_json(to_json(objective)) == objective


def test_adding_one_file_is_enough(folder: Path) -> None:
    (folder / "focal.py").write_text(FOCAL)
    assert "focal" in our_objectives()
    objective = from_json({"name": "focal", "gamma": 3.0})
    assert to_json(objective) == {"name": "focal", "gamma": 3.0}


def test_a_file_without_an_objective_of_its_name_is_refused(folder: Path) -> None:
    (folder / "local.py").write_text(FOCAL)
    with pytest.raises(RequestError, match=r"local does not bring objective 'local'\n.*whose name is 'local'"):
        find_objective("local")


def test_another_package_brings_an_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="one of cross_entropy, kto, orpo, policy_gradient"):
        find_objective("focal")
    install(tmp_path, monkeypatch, "focals", "focal")
    assert to_json(from_json({"name": "focal"})) == {"name": "focal", "gamma": 2.0}
    with pytest.raises(RequestError, match="top_tokens, focal\n"):
        find_objective("hope")
    install(tmp_path, monkeypatch, "others", "focal")
    with pytest.raises(RequestError, match=r"several packages bring .*\nexpected: one package; these do: .*focals"):
        find_objective("focal")


def test_another_package_does_not_take_one_of_our_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "thieves", "preference")
    with pytest.raises(RequestError, match=r"preference of thieves has .*\n.*\n.*pip uninstall thieves"):
        find_objective("preference")
