"""A machine without compilers."""

from pathlib import Path

import pytest

from workings.engines.base import NotInspected
from workings.engines.jax import planning as jax_planning
from workings.engines.torch import planning as torch_planning


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Plans of the JAX engine are estimated: its compilers are not installed. Nor are programs of PyTorch traced."""
    def absent(*_: object, **__: object) -> None:
        raise NotInspected("this machine lacks the package jax-cuda12-plugin; to have it compiled: "
                           "pip install 'workings[plan]'")

    monkeypatch.setattr(jax_planning, "compile_for", absent)
    monkeypatch.setattr(torch_planning, "trace_for", absent)
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
