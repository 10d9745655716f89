"""A command of these tests runs in the test's own process, where the libraries are imported already."""

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from workings.cli.main import main


@pytest.fixture
def workings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
             ) -> Callable[..., "CompletedProcess[str]"]:
    """Runs ``workings WORDS``; ``check``: it must end with exit code 0."""
    def run(*words: str | Path, cwd: Path | None = None, check: bool = True) -> "CompletedProcess[str]":
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["workings", *map(str, words)])
            patch.chdir(cwd or Path.cwd())
            with pytest.raises(SystemExit) as ended:
                main()
        printed, code = capsys.readouterr(), int(ended.value.code or 0)
        assert not (check and code), printed.err
        return CompletedProcess(words, code, printed.out, printed.err)
    return run
