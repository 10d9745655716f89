"""A checkout that does not change while runs are made, verified and replayed: the real one may, while tests run."""

import pytest

from workings.record.values import absent
from workings.runs import replay, run_metadata


def pin_code_version(patch: pytest.MonkeyPatch) -> None:
    """Runs and replays are made by one and the same code."""
    for module in (run_metadata, replay):
        patch.setattr(module, "code_version", lambda: ("a" * 39 + "b", absent("no changes")))
