"""Scorers by name, and a person's own from a file (``FILE.py:FUNCTION``), for that person's own runs.

The file is executed only where the person names it, and only in the scoring process; nothing that reads a scorecard
later executes it. Its version is the digest of its bytes.
"""

import runpy
from pathlib import Path

from workings.errors import RequestError
from workings.evaluation.scorers import Scorer, get_scorer
from workings.record.digest import file_digest


def scorer_version(name: str) -> tuple[str, str]:
    """Recorded name and version of a scorer, without executing anything of the person's."""
    if ".py:" not in name:
        return name, get_scorer(name).version
    path, function = _parts(name)
    return f"{path.name}:{function}", f"sha256:{file_digest(path)}"


def load_scorer(name: str) -> Scorer:
    """The registered scorer, or the function of a file. Executes that file."""
    if ".py:" not in name:
        return get_scorer(name)
    path, function = _parts(name)
    recorded, version = scorer_version(name)
    namespace = runpy.run_path(str(path))
    if not callable(namespace.get(function)):
        raise RequestError(f"scorer: {name}", f"a function {function}(answer, item) in {path.name}")
    return Scorer(recorded, version, namespace[function])


def _parts(name: str) -> tuple[Path, str]:
    path, _, function = name.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        raise RequestError(f"scorer: {name}", "FILE.py:FUNCTION, with a file that exists")
    return Path(path), function
