"""Objectives by name: those of this package, and those that other packages bring by an entry point."""

from pathlib import Path

import pytest

from workings.errors import RequestError
from workings.objectives.registry import OBJECTIVES, find_objective, from_json, to_json

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
'''


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str) -> None:
    """As if a package were installed that brings `Focal` under a name."""
    (folder / f"{package}.py").write_text(FOCAL)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[workings.objectives]\n{name} = {package}:Focal\n")
    monkeypatch.syspath_prepend(str(folder))


def test_every_objective_comes_back_from_json() -> None:
    for name in OBJECTIVES:
        objective = find_objective(name)()
        assert objective.name == name
        assert from_json(to_json(objective)) == objective


def test_another_package_brings_an_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="one of cross_entropy, kto, orpo, policy_gradient"):
        find_objective("focal")
    install(tmp_path, monkeypatch, "focals", "focal")
    assert to_json(from_json({"name": "focal", "gamma": 3.0})) == {"name": "focal", "gamma": 3.0}
    with pytest.raises(RequestError, match="top_tokens, focal\n"):
        find_objective("hope")
    install(tmp_path, monkeypatch, "others", "focal")
    with pytest.raises(RequestError, match=r"several packages bring .*\nexpected: one package; these do: .*focals"):
        find_objective("focal")


@pytest.mark.parametrize(("name", "says"), [
    ("preference", r"preference of thieves has .*\n.*\n.*pip uninstall thieves"),  # one of ours
    ("local", r"thieves:Focal does not bring objective 'local'\n.*whose name is 'local'")])
def test_a_package_that_brings_something_else_under_a_name_is_refused(
        name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "thieves", name)
    with pytest.raises(RequestError, match=says):
        find_objective(name)
