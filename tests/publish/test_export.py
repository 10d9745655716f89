"""`workings export`: what transformers opens is what the run answers with."""

import json
from pathlib import Path

import pytest

from tests import kept_folders
from tests.runs.killed import write_recipe
from workings.errors import RequestError
from workings.publish.export import export_run
from workings.runs.evaluate import Question, ask
from workings.runs.train import train

transformers = pytest.importorskip("transformers")
QUESTION = "What is 34+58?"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Gemma 3 after six steps."""
    def make(folder: Path) -> None:
        train(str(write_recipe(folder)), folder / "run")

    return kept_folders.copy(make, tmp_path_factory.mktemp("exported"), "exported") / "run"


def test_transformers_opens_the_export_and_answers_as_the_run_does(run: Path, tmp_path: Path, workings) -> None:
    out = tmp_path / "model"
    said = json.loads(workings("export", run, "--out", out, "--json").stdout.splitlines()[-1])
    assert said["step"] == 6
    assert set(said["files"]) == {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json",
                                  "tokenizer_config.json", "chat_template.jinja"}
    origin = json.loads((out / "export_info.json").read_text())
    assert (origin["made_from"], origin["files"]) == (said["made_from"], said["files"])
    assert origin["carried_over"] == said["carried_over"] == {"absent": "the run began with random weights"}
    config, generation = (json.loads((out / name).read_text()) for name in ("config.json", "generation_config.json"))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert config[name] == generation[name]

    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True,
                                           return_tensors="pt", return_dict=True)
    stop = tokenizer.convert_tokens_to_ids("<end_of_turn>")
    assert stop in model.generation_config.eos_token_id
    written = model.generate(**prompt, max_new_tokens=12)[0, prompt["input_ids"].shape[1]:].tolist()
    reply = ask(run, Question(text=QUESTION, max_new_tokens=12))
    assert tokenizer.decode([token for token in written if token != stop]) == reply.text
    assert len(reply.text) > 4

    with pytest.raises(RequestError, match="already exists"):
        export_run(run, out)
