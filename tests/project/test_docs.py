"""The documentation cannot rot: fences run, quoted numbers equal their sources, generated pages are current."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

from tools import (
    alias_reference,
    benchmarks_page,
    command_reference,
    decision_index,
    python_reference,
    recipe_reference,
    record_reference,
    silent_page,
    witness_reference,
)
from tools.fences import RUNNABLE, fences, pages
from tools.generated import deliver
from tools.printed import missing_lines
from tools.quotes import Quote, quotes, wrong
from workings.cli.main import app
from workings.config.load import parse_recipe

ROOT = Path(__file__).resolve().parents[2]

FENCES = [(page, fence) for page in pages() for fence in fences((ROOT / page).read_text("utf-8"))
          if fence.language in RUNNABLE]
PAGES = sorted({page for page, fence in FENCES if not fence.not_run})


TYPED_BY_PROOF = ("docs/data.md", "docs/evaluation.md", "docs/index.md", "docs/learning-from-rewards.md",
                  "docs/planning.md", "docs/reference/coming-from.md", "docs/ways-of-learning.md",
                  "docs/write-your-own.md", "examples/runs/quickstart/README.md")
"""Pages that `make proof` types; what these show is tested from Python too."""
FIRST_HOUR = "docs/getting-started.md"
"""From the first recipe to a verified run, in the shell; `make proof` types on, with data of one's own and in Python,
which tests/cli/test_data.py and tests/runs/test_api.py do as well."""


def typed():
    """Each page, and the heading up to which it is typed."""
    for page in PAGES:
        proof = str(page) in (*TYPED_BY_PROOF, FIRST_HOUR)
        yield pytest.param(page, "", id=str(page), marks=pytest.mark.full if proof else ())
        if str(page) == FIRST_HOUR:
            yield pytest.param(page, "## Your own data", id=f"{page}, a first run")


@pytest.mark.parametrize(("page", "until"), [*typed()])
def test_fences_run(page, until, tmp_path, child_environment, run_forked):
    # Examples are read from the page's own directory, as a reader at the root of the repository would.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = child_environment(PATH=path)
    lines = (ROOT / page).read_text("utf-8").splitlines()
    end = lines.index(until) if until else len(lines)
    for fence in (fence for of, fence in FENCES if of == page and not fence.not_run and fence.line <= end):
        if fence.language == "bash":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", fence.code], cwd=tmp_path, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        else:
            done = run_forked("-c", fence.code, cwd=tmp_path, environment=environment, check=False)
        assert done.returncode == 0, f"{page}:{fence.line}\n{fence.code}\n{done.stdout}\n{done.stderr}"


def test_bash_fences_are_parsed_by_bash():
    text = "\n".join(fence.code for _, fence in FENCES if fence.language == "bash")
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def typed_commands():
    """Every command of ours in the pages, those that are not run included: its words, and where it is."""
    for page, fence in FENCES:
        lines = fence.code.replace("\\\n", " ").splitlines() if fence.language == "bash" else []
        for line in lines:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            end = next((at for at, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
            # A function of the shell that takes any words is no command.
            if words and Path(words[0]).name == "workings" and words[1:2] != ["$@"]:
                yield f"{page}:{fence.line}: {line}", words[1:end]


def test_commands_that_the_pages_show_have_these_verbs_and_options():
    program, wrong, count = typer.main.get_command(app), [], 0
    for place, words in typed_commands():
        command, words, count = program, list(words), count + 1
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            command = command.commands.get(words.pop(0))
        if command is None:
            wrong.append(f"{place}: no such verb")
            continue
        context = click.Context(command, info_name=command.name, resilient_parsing=True)
        try:
            command.make_parser(context).parse_args(words)
        except click.UsageError as error:
            wrong.append(f"{place}: {error.message}")
    assert wrong == []
    assert count > 60


WRITES = re.compile(r"--out[ =]([\w./-]+)|>\s*([\w.-]+)\s*(?:<<|$)|Path\(\"([\w.-]+)\"\)\.write_text"
                    r"|workings\.\w+\([^)]*?Path\(\"([\w./-]+)\"\)", re.MULTILINE)


def test_no_two_pages_write_the_same_path():
    # Someone who types one page after another in one folder would be refused, or get the files of the page before.
    written = {}
    for page, fence in FENCES:
        if not fence.not_run:
            for match in WRITES.finditer(fence.code):
                written.setdefault(next(filter(None, match.groups())), set()).add(str(page))
    assert len(written) > 40
    assert {path: found for path, found in written.items() if len(found) > 1} == {}


@pytest.mark.parametrize("page", pages(), ids=str)
def test_quoted_numbers_equal_their_source(page):
    found = [(quote.line, wrong(quote)) for quote in quotes((ROOT / page).read_text("utf-8"))]
    assert [f"{page}:{line}: {text}" for line, text in found if text] == []


@pytest.mark.parametrize("page", pages(), ids=str)
def test_printed_blocks_stand_in_their_source(page):
    assert missing_lines((ROOT / page).read_text("utf-8")) == []


def test_a_printed_block_has_its_source_s_lines_in_their_order(tmp_path):
    (tmp_path / "a.txt").write_text("first\n\nsecond\nthird\n")
    (tmp_path / "a.json").write_text('{"values": {"said": "first\\nsecond"}}')
    shown = "<!-- printed, from a.txt -->\n```text\nfirst\n\nthird\n```\n"
    assert missing_lines(shown, tmp_path) == []
    assert missing_lines(shown.replace("first\n\nthird", "third\nfirst"), tmp_path) == ["first"]
    assert missing_lines("<!-- printed, from a.json: values.said -->\n> second\n> first\n", tmp_path) == ["first"]


def test_recipes_in_the_readme_are_recipes():
    shown = [fence for fence in fences((ROOT / "README.md").read_text("utf-8")) if fence.language == "yaml"]
    assert shown
    assert [parse_recipe(fence.code, f"README.md:{fence.line}", ROOT).recipe.method.name for fence in shown] == ["lora"]


def test_the_recipe_in_another_trainers_words_is_a_recipe():
    text = (ROOT / alias_reference.PAGE).read_text("utf-8")
    [recipe] = re.findall(r"cat > moved\.yaml <<'END'\n(.*?)END\n", text, re.DOTALL)
    loaded = parse_recipe(recipe, str(alias_reference.PAGE), ROOT)
    assert (loaded.recipe.method.name, loaded.recipe.training.epochs, len(loaded.renamed)) == ("lora", 3, 11)


def test_the_walks_name_functions_that_are_there():
    text = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## Two walks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|([^|\n]*`[^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$", text, re.MULTILINE)
    assert len(rows) > 20
    for names, *rest in rows:
        source = "".join((ROOT / "src/workings" / file).read_text("utf-8")
                         for file in re.findall(r"`([\w/]+\.py)`", "".join(rest)))
        defined = set(re.findall(r"\b(?:def|class) (\w+)", source))
        assert set(re.findall(r"\w+", names)) <= defined, names


@pytest.mark.parametrize(("written", "unit", "right"), [
    ("99.4", "percent", True), ("99.41", "percent", True), ("99.42", "percent", False), ("99", "percent", True),
    ("0.9941", "", True), ("0.995", "", False), ("\u22120.99", "", False),
])
def test_a_quote_is_compared_at_the_digits_it_shows(written, unit, right, tmp_path, monkeypatch):
    (tmp_path / "proof").mkdir()
    (tmp_path / "proof/a.json").write_text('{"values": {"runs": [0.5, 0.99408]}}')
    monkeypatch.setattr("tools.quotes.ROOT", tmp_path)
    quote = Quote(line=1, written=written, file="proof/a.json", place="values.runs.1", unit=unit)
    assert (wrong(quote) == "") is right


@pytest.mark.parametrize("generator", [alias_reference, recipe_reference, command_reference, record_reference,
                                       witness_reference,
                                       python_reference, decision_index, benchmarks_page, silent_page],
                         ids=["aliases", "recipes", "commands", "record", "witnesses", "python", "decisions",
                              "benchmarks", "silent"])
def test_generated_page_is_current(generator, capsys):
    assert deliver(generator.PAGE, generator.render(), check=True) == 0, capsys.readouterr().err


def test_chart_of_benchmarks_is_current(capsys):
    assert deliver(benchmarks_page.CHART, benchmarks_page.chart(), check=True) == 0, capsys.readouterr().err


@pytest.mark.parametrize("generator", [alias_reference, recipe_reference, record_reference, witness_reference],
                         ids=["aliases", "recipes", "record", "witnesses"])
def test_every_key_is_documented(generator):
    rows = [line for line in generator.render().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert [row for row in rows if row.rstrip().endswith("|  |")] == []
