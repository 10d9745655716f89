"""SIGKILL right before chosen calls to the system; `proof/record_crash.py` does the same at 200 points and more."""

import pytest

from tests.record import crash

pytestmark = pytest.mark.children


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> list[str]:
    """The names of all counted calls of a run that is not killed."""
    folder = tmp_path_factory.mktemp("whole")
    child = crash.run_child(folder / "run", 0)
    assert child.returncode == 0, child.stderr
    assert (child.last("step"), child.last("saved"), child.told[-1]) == (6, 6, "sealed")
    assert crash.problems_at_end(folder / "run") == []
    return child.stderr.splitlines()


@pytest.mark.parametrize("moment", ["appending a line", "committing a checkpoint", "sealing", "giving the final name"])
def test_killed_at_a_moment_and_resumed(tmp_path, calls, moment: str) -> None:
    renames, appends, replaces = ([number for number, call in enumerate(calls, start=1) if call == name]
                                  for name in ("rename:rename", "append_bytes:write", "replace:replace"))
    kill_at = {"appending a line": appends[len(appends) // 2], "committing a checkpoint": renames[1],
               "sealing": replaces[-1], "giving the final name": renames[-1]}[moment]
    assert crash.trial(tmp_path / "run", kill_at) == []


def test_killed_twice(tmp_path, calls) -> None:
    assert crash.trial(tmp_path / "run", len(calls) // 3, len(calls) // 4) == []
