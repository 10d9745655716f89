"""`workings data`: last line, exit codes, files, and no traceback for a user's mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from workings.cli.main import app
from workings.data.named_sets import make_set
from workings.data.preferences import read_pairs
from workings.data.traces import read_traces
from workings.errors import RequestError


def run(*words: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON of the last line, and standard error. A `WorkingsError` is what `main` would print."""
    done = CliRunner().invoke(app, ["data", *map(str, words), "--json"], catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout.splitlines()[-1]), done.stderr


def text(*words: object) -> str:
    return CliRunner().invoke(app, ["data", *map(str, words)], catch_exceptions=False).stdout


@pytest.fixture
def gsm(tmp_path: Path) -> Path:
    path = tmp_path / "gsm.jsonl"
    path.write_text('{"question": "1+1?", "answer": "1+1=<<1+1=2>>2\\n#### 2"}\n{"question": "2?"}\n')
    return path


def test_import_counts_and_rejects(gsm: Path, tmp_path: Path) -> None:
    code, values, error = run("import", "--format", "gsm8k", gsm, "--out", tmp_path / "t.jsonl", "--on-error", "skip",
                              "--licence", "MIT", "--section", "core")
    assert code == 0
    assert {key: values[key] for key in ("read", "written", "rejected")} == {"read": 2, "written": 1, "rejected": 1}
    assert "rejected 1: `answer` is missing" in error
    assert Path(values["rejects"]).is_file()
    [trace] = read_traces(tmp_path / "t.jsonl")
    assert (trace.source, trace.licence, trace.section) == ("gsm.jsonl", "MIT", "core")
    gsm.write_text("{}\n")
    code, values, _ = run("import", "--format", "gsm8k", gsm, "--out", tmp_path / "no.jsonl", "--on-error", "skip")
    assert (code, values["written"], values["rejected"]) == (1, 0, 1), "nothing usable is no empty data set"


@pytest.mark.parametrize(("words", "reason"), [
    (["import", "--format", "gsm8k", "absent.jsonl", "--out", "t.jsonl"], "a file of JSON lines"),
    (["make", "algebra", "--out", "x"], "algebra"),
    (["make", "eval", "--out", "absent/x.jsonl"], "mkdir -p absent"),
    (["check", "dev-reasoning", "--fix"], "the shipped set dev-reasoning"),
    (["check", "dev-reasoning", "--against", "nothing"], "one of eval"),
    (["preview", "quickstart", "--row", "missing"], "the id of a row"),
])
def test_mistakes(words: list[str], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=reason):
        CliRunner().invoke(app, ["data", *words], catch_exceptions=False)


def test_make_writes_traces_items_and_a_manifest(tmp_path: Path) -> None:
    words = ("make", "unit_conversion", "--n", 20, "--items", 6, "--seed", 4, "--out", tmp_path / "d")
    code, values, _ = run(*words)
    assert (code, values["traces"], values["items"]) == (0, 20, 6)
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert manifest["made_by"] == {"generator": "unit_conversion", "seed": 4, "traces": 20, "items": 6}
    assert manifest["sha256"] == {Path(name).name: digest for name, digest in values["files"].items()}
    with pytest.raises(RequestError, match="already exists"):
        run("make", "unit_conversion", "--out", tmp_path / "d")
    _, again, _ = run(*words, "--force")
    assert again == values
    run("make", "addition", "--n", 20, "--items", 6, "--out", tmp_path / "a.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"d", "a.items.jsonl", "a.jsonl", "a.manifest.json"}


@pytest.mark.slow
def test_shipped_names_can_be_listed_and_written(tmp_path: Path) -> None:
    _, listed, _ = run("list")
    assert set(listed["sets"]) == {"dev-reasoning", "eval"}
    _, made, _ = run("make", "dev-reasoning", "--out", tmp_path / "dev.jsonl")
    assert made["files"] == {str(tmp_path / "dev.jsonl"): listed["sets"]["dev-reasoning"]["sha256"]}
    assert "kinds of `data make`:" in text("list")
    assert {"gsm8k", "traces"} <= set(listed["formats"])
    assert {"hh", "preferences"} <= set(listed["pair_formats"])
    assert set(listed["verdict_formats"]) == {"kto"}


@pytest.mark.slow
def test_check_passes_the_shipped_set_against_its_items_and_finds_a_leak(tmp_path: Path) -> None:
    code, values, _ = run("check", "dev-reasoning", "--against", "eval")
    assert (code, values["records"], values["passed"]) == (0, 550, True)
    (tmp_path / "t.jsonl").write_text(json.dumps({"id": "x", "prompt": make_set("eval")[0].prompt, "steps": ["1"],
                                                  "answer": "1"}) + "\n")
    code, values, _ = run("check", tmp_path / "t.jsonl", "--against", "eval", "--fix", "--findings",
                          tmp_path / "found.jsonl")
    assert '"kind": "leak"' in (tmp_path / "found.jsonl").read_text()
    assert (code, values["counts"]["leak"], values["kept"], values["removed"]) == (1, 1, 0, 1)
    assert Path(values["clean"]).read_bytes() == b""
    shown = text("check", tmp_path / "t.jsonl", "--against", "eval")
    assert "matters       1  leak: a question of the evaluation set, whatever its case" in shown


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Three pairs, imported from dialogues; the last two contradict each other."""
    path, asked = tmp_path / "hh.jsonl", "\n\nHuman: What is 2+2?\n\nAssistant:"
    told = [("2+2=4", "I wonder"), ("4", "5"), ("5", "4")]
    path.write_text("".join(json.dumps({"chosen": f"{asked} {better}", "rejected": f"{asked} {worse}"}) + "\n"
                            for better, worse in told))
    code, values, _ = run("import", "--format", "hh", path, "--out", tmp_path / "pairs.jsonl", "--licence", "MIT")
    assert (code, values["read"], values["written"]) == (0, 3, 3)
    return tmp_path / "pairs.jsonl"


def test_a_file_of_pairs_is_known_by_its_first_line(pairs: Path, tmp_path: Path) -> None:
    code, values, _ = run("check", pairs, "--recipe", "quickstart", "--fix")
    assert (code, values["counts"]) == (1, {"opposite_verdicts": 2})
    assert (values["kept"], values["removed"]) == (1, 2)
    [kept] = read_pairs(Path(values["clean"]))
    assert (kept.chosen, kept.rejected, kept.source) == ("2+2=4", "I wonder", "hh.jsonl")
    assert "3 records: 2 pairs should not be trained on" in text("check", pairs)


def test_preview_shows_both_completions_of_a_pair(pairs: Path) -> None:
    code, values, _ = run("preview", "quickstart", "algorithm.name=dpo", f"data.traces={pairs}", "--n", 2)
    assert (code, values["rows"]) == (0, 6)
    assert [(row["id"], row["text"].split("«")[1]) for row in values["shown"]] == [
        ("hh-0000001/chosen", "2+2=4<end_of_turn>»"), ("hh-0000001/rejected", "I wonder<end_of_turn>»")]
    _, only, _ = run("preview", "quickstart", "algorithm.name=dpo", f"data.traces={pairs}", "--row",
                     "hh-0000003/chosen")
    assert [row["text"].split("«")[1] for row in only["shown"]] == ["5<end_of_turn>»"]


@pytest.mark.slow
def test_preview_shows_rows_and_numbers() -> None:
    code, values, _ = run("preview", "quickstart", "--n", 1)
    assert code == 0
    [shown] = values["shown"]
    assert shown["text"].startswith("<bos><start_of_turn>user⏎What is ")
    assert shown["text"].split("«")[1].startswith("<reasoning>")
    assert shown["text"].endswith("<end_of_turn>»")
    assert values["tokens"] > values["supervised_tokens"] > 0
    code, only, _ = run("preview", "quickstart", "--row", shown["id"], "data.reasoning=answer_only")
    assert [found["id"] for found in only["shown"]] == [shown["id"]]
    assert only["supervised_tokens"] < values["supervised_tokens"]
    plain = text("preview", "quickstart", "--n", 1)
    assert shown["text"] in plain
    assert "padding: " in plain
    assert f"every row begins with the same {values['shared_prefix']} tokens" in plain
