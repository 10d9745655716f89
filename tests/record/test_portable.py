"""Recording, verifying, scoring and listing where neither `fcntl` nor an open folder exists."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from tests.evaluation.making import completions, items, write_lines

RECORD = """
import tests.record.without_posix
from pathlib import Path
from tests.record import synthetic
from workings.errors import RequestError
from workings.record import lock, storage
from workings.record.lock import DirectoryLock, is_held
assert not storage.FOLDERS and not hasattr(lock, "fcntl")
folder = Path("here/run")
folder.mkdir(parents=True)
assert not is_held(folder)
held = DirectoryLock(folder)
assert is_held(folder) and Path("here/.run.lock").is_file()
try:
    DirectoryLock(folder)
except RequestError as error:
    assert "another process is writing to" in str(error)
else:
    raise AssertionError("two writers")
held.release()
held.release()
assert not is_held(folder) and [entry.name for entry in Path("here").iterdir()] == ["run"]
synthetic.add_evaluation(synthetic.sealed_run(Path("runs/tiny")))
assert sorted(path.name for path in Path("runs").iterdir()) == ["attempts.jsonl", "tiny"]
"""
VERBS = """
import sys
from workings.cli.main import main
for words in ("verify runs/tiny", "eval --predictions p.jsonl --items items.jsonl --out scored"):
    sys.argv = ["workings", *words.split(), "--json"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""
LIST = """
from starlette.testclient import TestClient
from workings.ui.app import make_app
page = TestClient(make_app(Path("runs"), token="t", port=1), base_url="http://127.0.0.1:1",
                  headers={"authorization": "Bearer t"})
print([(run["name"], run["state"]) for run in page.get("/api/runs").json()["rows"]])
"""


def test_a_run_is_recorded_locked_verified_and_listed(
        tmp_path: Path, repository: Path, run_python: Callable[..., "CompletedProcess[str]"]) -> None:
    asked = items(4)
    write_lines(tmp_path / "items.jsonl", [item.to_json() for item in asked])
    write_lines(tmp_path / "p.jsonl", completions(asked, [True, True, True, False]))
    # In one process: most of what a further one would do is to import.
    done = run_python("-c", RECORD + VERBS + LIST, cwd=tmp_path, environment={"PYTHONPATH": str(repository)})
    verified, *_, scored, listed = done.stdout.splitlines()
    assert [json.loads(verified)[key] for key in ("failed", "level")] == [0, 2]
    assert json.loads(scored)["accuracy"] == 0.75
    assert listed == "[('tiny', 'complete')]"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "here", "items.jsonl", "p.jsonl", "runs", "scored"], "no lock is left"
