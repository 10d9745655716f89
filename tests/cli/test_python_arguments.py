"""Every option of every command, and every argument of the Python interface, is read; one that nothing reads next to
the others is refused."""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import workings
from tools.option_effects import ARGUMENTS
from workings.cli.main import app
from workings.errors import RequestError

ROOT = Path(__file__).resolve().parents[2]


def names_read(function: Callable[..., Any]) -> set[str]:
    """Names that a function's body looks at."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    [definition] = tree.body
    assert isinstance(definition, ast.FunctionDef)
    return {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}


def members() -> Iterator[Any]:
    for name in workings.__all__:
        thing = getattr(workings, name)
        if not inspect.isclass(thing):
            yield pytest.param(thing, id=name)
            continue
        for inner, member in vars(thing).items():
            if not inner.startswith("_") and callable(member) and not isinstance(member, cached_property):
                yield pytest.param(member, id=f"{name}.{inner}")


@pytest.mark.parametrize("function", [*members()])
def test_a_function_of_the_interface_reads_every_argument(function: Callable[..., Any]) -> None:
    read = names_read(function)
    assert [name for name in inspect.signature(function).parameters if name not in {*read, "self", "cls"}] == []


def test_every_argument_of_the_interface_is_in_the_table_with_its_test() -> None:
    names = [f"{each.id} {name}" for each in members() for name in inspect.signature(each.values[0]).parameters
             if name != "self"]
    assert sorted({*names, "Run.open path"}) == sorted(ARGUMENTS)
    for named in ARGUMENTS.values():
        file, _, test = named.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), named


# --- refused where nothing reads it -------------------------------------------------------------------------------

CHAT = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}


@pytest.mark.parametrize(("words", "said"), [
    ("data import rows.jsonl --out x.jsonl --subset main", "--subset cannot be used without --revision"),
    ("data import rows.jsonl --out x.jsonl --split test", "--split cannot be used without --revision"),
    ("data import rows.jsonl --out x.jsonl --seed 3", "--seed cannot be used without --hold-out"),
    ("data make dev-reasoning --out x --n 5", "--n cannot be used with dev-reasoning"),
    ("compare run --save main --max-drop 0.1", "--max-drop cannot be used with --save"),
    ("data select unit --out x --most-pairs 3", "--most-pairs cannot be used without --pairs"),
    ("eval --predictions p.jsonl --items i.jsonl --out x --temperature 0.5 --seed 3",
     "--temperature and --seed cannot be used without a model"),
    ("eval run --items i.jsonl --harness-filter strict", "--harness-filter cannot be used without --task"),
])
def test_an_option_that_decides_nothing_is_refused(words: str, said: str, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(json.dumps(CHAT) + "\n")
    done = CliRunner().invoke(app, words.split())
    assert isinstance(done.exception, RequestError)
    assert said in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl"]


@pytest.mark.slow
def test_a_smoke_run_has_the_steps_that_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["train", "smoke-tiny", "--out", "run", "--smoke-steps", "3", "--json",
                                    "engine=torch", "device=cpu", "evaluation={}"])
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 3
