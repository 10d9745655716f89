"""`workings export --format gguf`: llama.cpp writes what the run's engine writes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests import kept_folders
from tests.engines.tiny import tiny_shape
from tests.publish.llama_cpp import NEW_TOKENS, PROMPTS, compared, llama_cpp
from tests.runs.killed import write_recipe
from tests.runs.runs_helpers import refused
from workings.errors import RequestError
from workings.models.gguf.forms import form_of
from workings.runs.evaluate import Question, ask
from workings.runs.train import train

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")
QUESTION = "What is 34+58?"


@pytest.mark.slow
def test_llama_cpp_writes_the_tokens_of_the_trained_model(tmp_path: Path) -> None:
    """`proof/gguf.py` compares every family, with LoRA and in full."""
    found = compared("gemma2", "lora", tmp_path)
    assert found["learned"] == found["bf16"] == PROMPTS * NEW_TOKENS
    assert found["q8_0"] >= 90
    assert found["log_prob_difference"] < found["log_prob_limit"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Gemma 3 that was trained until it writes text."""
    def make(folder: Path) -> None:
        train(str(write_recipe(folder)), folder / "run", [
            "model.shape.head_dim=16", "model.shape.width=32", "training.steps=40", "training.learning_rate=0.02",
            "checkpoint.every_steps=40"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("gguf"), "gguf") / "run"


def test_llama_cpp_answers_a_question_as_the_run_does(run: Path, tmp_path: Path, workings) -> None:
    said = workings("export", run, "--format", "gguf", cwd=tmp_path).stdout  # as at the end of the quickstart
    out = tmp_path / "run-gguf"
    assert "llama-cli -m run-gguf/model.gguf --jinja" in said
    assert {path.name for path in out.iterdir()} == {"model.gguf", "export_info.json"}
    assert json.loads((out / "export_info.json").read_text())["format"] == "gguf bf16"
    # By its text alone: template, tokenizer and stop token are those of the file.
    with llama_cpp(out / "model.gguf") as server:
        theirs = server.handle_chat_completions({"messages": [{"role": "user", "content": QUESTION}],
                                                 "max_tokens": 12, "temperature": 0.0, "top_k": 1})
    ours = ask(run, Question(text=QUESTION, max_new_tokens=12))
    assert theirs["choices"][0]["message"]["content"] == ours.text
    assert len(ours.text) > 4


@pytest.mark.parametrize(("out", "words", "error"), [
    ("out", ("--type", "q8_0"), "--type q8_0 does not apply to --format safetensors"),
    ("out", ("--format", "gguf", "--type", "q4_k_m"), "'--type': 'q4_k_m'"),
    ("out", ("--format", "onnx"), "'--format': 'onnx'"),
    ("model.gguf", ("--format", "gguf"), "names a file"), ("here", ("--format", "gguf"), "already exists"),
])
def test_words_that_do_not_fit_are_refused(out: str, words: tuple[str, ...], error: str, run: Path,
                                           tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert error in refused("export", run, "--out", tmp_path / out, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_family_without_a_form_is_refused() -> None:
    with pytest.raises(RequestError, match="mamba"):
        form_of(replace(tiny_shape(), family="mamba"))
