"""A machine without compilers."""

from pathlib import Path

import pytest

from workings.engines.jax import planning as jax_planning
from workings.engines.jax.target import CompilerAbsent


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Plans of the JAX engine are estimated: its compilers are not installed."""
    def absent(*_: object, **__: object) -> None:
        raise CompilerAbsent("compiling without its compiler", "the package jax-cuda12-plugin",
                             "pip install 'workings[plan]'")

    monkeypatch.setattr(jax_planning, "compile_for", absent)
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
