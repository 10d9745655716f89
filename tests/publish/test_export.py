"""`workings export`: what transformers opens is what the run answers with."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.engines.tiny import tiny_shape
from tests.runs.killed import trained_and_exported
from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.export import export_run, write_tokenizer
from workings.runs.evaluate import Question, ask

transformers = pytest.importorskip("transformers")
QUESTION = "What is 34+58?"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_and_exported(tmp_path_factory.mktemp("exported")) / "run"


def test_transformers_opens_the_export_and_answers_as_the_run_does(run: Path, tmp_path: Path, workings) -> None:
    out = tmp_path / "model"
    said = json.loads(workings("export", run, "--out", out, "--json").stdout.splitlines()[-1])
    assert said["step"] == 24
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
    assert reply.text

    with pytest.raises(RequestError, match="already exists"):
        export_run(run, out)


@pytest.mark.parametrize("family", ["gemma2", "gemma4"])
def test_a_shape_that_a_record_held_becomes_a_config_that_transformers_opens(family: str) -> None:
    shape = tiny_shape(family)
    # A record writes 30.0 as 30, and transformers refuses an integer as soft cap.
    recorded = {name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in asdict(shape).items()}
    assert isinstance(recorded["final_softcap"], int)
    config = to_hf_config(ModelShape(**recorded))
    opened = transformers.AutoConfig.for_model(**{name: x for name, x in config.items() if name != "architectures"})
    assert opened.final_logit_softcapping == shape.final_softcap


def test_the_tokenizer_says_everywhere_what_its_readers_look_for(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["1+1=2", "what is it?"], 400)
    template = ChatTemplate.for_config("gemma", tokenizer, "any")
    write_tokenizer(template, StopTokens.of(template, None), tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert (tmp_path / "chat_template.jinja").read_text() == settings["chat_template"] == template.source
    added = settings["added_tokens_decoder"]
    turn = tokenizer.ids["<end_of_turn>"]
    assert (added[str(turn)]["content"], added[str(turn)]["special"]) == ("<end_of_turn>", True)
    assert added[str(tokenizer.ids["<answer>"])]["special"] is False
    said = json.loads((tmp_path / "generation_config.json").read_text())
    assert (said["bos_token_id"], said["eos_token_id"]) == (tokenizer.bos_id, template.stop_ids)
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert opened.convert_tokens_to_ids("<end_of_turn>") == turn
    text = "<start_of_turn>user\n12+3<end_of_turn>"
    assert opened.encode(text, add_special_tokens=False) == tokenizer.encode(text)
