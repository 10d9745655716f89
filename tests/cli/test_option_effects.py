"""Every option matters: with it a command's exit code, output or files differ, or it is refused by its name."""

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from socket import socket
from typing import Any
from zipfile import ZipFile

import pytest
from starlette.testclient import TestClient

from tests.evaluation.making import write_lines
from tests.evidence.packs import two_runs
from tests.launching.making import WHEEL, write_wheel
from tests.reports import making as reported
from tests.runs import rewarded
from tests.samples.making import samples_unit
from tools.command_reference import PROGRAM
from tools.option_effects import EFFECTS, Named, Tried
from workings.cli.main import main
from workings.engines.session import ModelSession
from workings.serving.server import make_app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of several forms, two runs and the weights of one, sealed samples, recipes, wheels and baselines."""
    folder = tmp_path_factory.mktemp("here")
    with ZipFile(ROOT / "examples/runs/quickstart/runs.zip") as archive:
        archive.extractall(folder)
    for name, run in (("a", "with-steps"), ("b", "answer-only")):
        (folder / "runs" / run).rename(folder / "runs" / name)
    write_lines(folder / "rows.jsonl", [{"id": f"r{x}", "question": f"{x}+1?", "answer": f"{x + 1}"} for x in range(9)])
    write_lines(folder / "gsm.jsonl", [{"question": "1+1?", "answer": "1+1=<<1+1=2>>2\n#### 2"}, {"question": "2?"}])
    write_lines(folder / "named.jsonl", [{"id": "r", "q": "1+1?", "answer": "2"}])
    write_lines(folder / "pairs.jsonl", [{"id": "r", "prompt": "1+1?", "completion": "1+1=2\n#### 2"}])
    for path in ("made.jsonl", "again/traces.jsonl"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("{}\n")
    call(folder, f"data make addition --out {folder}/add --n 30 --items 6")
    items = [json.loads(line) for line in (folder / "add/items.jsonl").read_text().splitlines()]
    write_lines(folder / "said.jsonl", [{"id": item["id"], "completion": f"It is {item['expected_answer']}."}
                                        for item in items])
    write_lines(folder / "wrong.jsonl", [{"id": item["id"], "completion": "It is 1."} for item in items])
    write_lines(folder / "fewer.jsonl", items[:3])
    reported.two_runs(folder / "pair")
    for run, name, place in (("steps", "a", "baselines"), ("plain", "b", "baselines"), ("plain", "a", "others")):
        call(folder, f"compare {folder}/pair/{run} --save {folder}/{place}/{name}")
    two_runs(folder / "small")
    samples_unit(folder / "samples")
    recipe = rewarded.write(folder).read_text()
    (folder / "short.yaml").write_text(recipe.replace("max_length: 64, buckets: [64]", "max_length: 24, buckets: [24]"))
    call(folder, f"export {folder}/runs/a --out {folder}/weights")
    (folder / "bare").mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (folder / "bare" / name).write_bytes((folder / "weights" / name).read_bytes())
    write_wheel(folder / WHEEL.name)
    (folder / "newer").mkdir()
    with ZipFile(folder / "newer" / WHEEL.name, "w") as archive:
        archive.writestr("workings/__init__.py", "NEW = True\n")
    return folder


def call(folder: Path, words: str) -> tuple[object, ...]:
    """Exit code, what was printed, and the files that a command wrote, in its own folder."""
    out, error = io.StringIO(), io.StringIO()
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["workings", *words.split()])
        if words.startswith("serve"):
            patch.setenv("WORKINGS_SERVE_TOKEN", "token")
            patch.setattr("workings.serving.server.make_server", AsksOnce)
        with pytest.raises(SystemExit) as ended:
            main()
    # What a command says while it works has times, and a server takes a free port.
    said = error.getvalue() if ended.value.code == 2 else re.sub(r"127\.0\.0\.1:\d+", "PORT", out.getvalue())
    return ended.value.code, said, {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "plan.json"}  # it has the memory that is free just now


class AsksOnce:
    """In place of a server that runs until Ctrl-C: asks its application one question and prints the reply."""

    def __init__(self, session: ModelSession, name: str, *, token: str) -> None:
        self.client = TestClient(make_app(session, name, token=token), "http://127.0.0.1",
                                 headers={"authorization": f"Bearer {token}"})
        self.name = name

    def run(self, sockets: list[socket]) -> None:
        for each in sockets:
            each.close()
        reply = self.client.post("/v1/chat/completions", json={
            "model": self.name, "messages": [{"role": "user", "content": "What is 1+7?"}], "max_tokens": 5,
            "temperature": 0, "logprobs": True}).json()
        print(json.dumps({key: reply[key] for key in ("choices", "usage")}))


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
    base, other = (words.replace("HERE", str(here)).replace("WHEEL", WHEEL.name)
                   for words in (effect.base, effect.other))
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
