"""Every option matters: with it a command's exit code, output or files differ, or it is refused by its name."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.evaluation.making import write_lines
from tests.runs import rewarded
from tests.samples.making import samples_unit
from tools.command_reference import PROGRAM
from tools.option_effects import EFFECTS, Named, Tried
from workings.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of several forms, two sealed runs, sealed samples, a recipe with rewards, and a baseline."""
    folder = tmp_path_factory.mktemp("here")
    with ZipFile(ROOT / "examples/runs/quickstart/runs.zip") as archive:
        archive.extractall(folder)
    for name, run in (("a", "with-steps"), ("b", "answer-only")):
        (folder / "runs" / run).rename(folder / "runs" / name)
    write_lines(folder / "rows.jsonl", [{"id": f"r{x}", "question": f"{x}+1?", "answer": f"{x + 1}"} for x in range(9)])
    write_lines(folder / "gsm.jsonl", [{"question": "1+1?", "answer": "1+1=<<1+1=2>>2\n#### 2"}, {"question": "2?"}])
    for path in ("made.jsonl", "again/traces.jsonl"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("{}\n")
    call(folder, f"data make addition --out {folder}/add --n 30 --items 6")
    items = [json.loads(line) for line in (folder / "add/items.jsonl").read_text().splitlines()]
    write_lines(folder / "said.jsonl", [{"id": item["id"], "completion": f"It is {item['expected_answer']}."}
                                        for item in items])
    call(folder, f"gate {folder}/runs/a --save a --dir {folder}/baselines")
    samples_unit(folder / "samples")
    rewarded.write(folder)
    return folder


def call(folder: Path, words: str) -> tuple[object, ...]:
    """Exit code, what was printed, and the files that a command wrote, in its own folder."""
    out, error = io.StringIO(), io.StringIO()
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["workings", *words.split()])
        with pytest.raises(SystemExit) as ended:
            main()
    # What a command says while it works has times.
    said = error.getvalue() if ended.value.code == 2 else out.getvalue()
    return ended.value.code, said, {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "plan.json"}  # it has the memory that is free just now


def commands(command: Any = PROGRAM, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*words, name))
    else:
        yield words, command


def options() -> Iterator[str]:
    for words, command in commands():
        for parameter in command.params:
            if parameter.opts[0].startswith("--") and parameter.name not in ("help", "as_json"):
                yield f"{' '.join(words)} {parameter.opts[0]}"


def test_every_option_is_in_the_table() -> None:
    assert sorted({*options()} - {*EFFECTS}) == []
    assert sorted({*EFFECTS} - {*options()}) == []


@pytest.mark.parametrize("option", [name for name, effect in EFFECTS.items() if isinstance(effect, Named)])
def test_a_named_test_is_there(option: str) -> None:
    file, _, name = EFFECTS[option].test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def known() -> dict[str, tuple[object, ...]]:
    """What calls without the option gave."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("option", [name for name, effect in EFFECTS.items() if isinstance(effect, Tried)])
def test_another_value_shows(option: str, here: Path, tmp_path: Path, known: dict[str, tuple[object, ...]]) -> None:
    effect = EFFECTS[option]
    base, other = (words.replace("HERE", str(here)) for words in (effect.base, effect.other))
    if base not in known:
        first, known[base] = call(tmp_path / "base", base), call(tmp_path / "again", base)
        # The first call may compile a plan that later ones find.
        if first != known[base]:
            assert call(tmp_path / "third", base) == known[base], "the call itself gives other results each time"
    found = call(tmp_path / "other", other)
    assert found != known[base]
    if found[0] == 2:
        name, value = option.split()[-1], other.split()[-1]
        assert any(word in str(found[1]) for word in (name, name[2:], value)), found[1]
