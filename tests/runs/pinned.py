"""A checkout that does not change while runs are made, verified and replayed: the real one may, while tests run."""

import pytest

from workings.runs import replay, run_metadata
from workings.runs.run_metadata import CodeVersion

SAME = CodeVersion(version="0.1.0", commit="a" * 39 + "b", dirty_diff_sha256="", absent_because="no changes")


def pin_code_version(patch: pytest.MonkeyPatch) -> None:
    """Runs and replays are made by one and the same code."""
    for module in (run_metadata, replay):
        patch.setattr(module, "code_version", lambda: SAME)
