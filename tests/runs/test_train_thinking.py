"""A run that learns Gemma 4's channel: recorded, evaluated in thinking mode, verified, replayed."""

import json

import pytest

from tests.models.chat_templates import tokenizer
from tests.models.thinking_templates import MARKS
from tests.runs.runs_helpers import write_recipe
from workings.cli.options import weights_request
from workings.errors import RequestError
from workings.evidence.replay.comparison import wrong_steps
from workings.evidence.verify import verify
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.digest import bytes_digest
from workings.record.layout import TOKENIZER
from workings.runs.evaluate import Question, ask
from workings.runs.open_model import open_run, open_weights
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train_and_evaluate import train_and_evaluate


def test_thinking_from_the_recipe_to_the_record_and_back(tmp_path):
    recipe = write_recipe(tmp_path / "asked")
    tokenizer(MARKS).save(recipe.parent / "gemma4")
    words = ["tokenizer=gemma4", "data.template=gemma4", "data.reasoning=channel", "data.max_length=160",
             "data.buckets=[]"]
    run = train_and_evaluate(str(recipe), tmp_path / "run", words).training.run
    session = open_run(run).session
    assert session.template.thinking
    assert "<|turn>system\n<|think|>\n<turn|>" in session.template.prompt_text("1+1?")
    tokens = Tokenizer.load(run / TOKENIZER)
    source = ChatTemplate.for_config("gemma4", tokens, "channel").source
    found = [json.loads(file.read_text()) for file in tmp_path.glob("**/eval_config.json")]
    assert [(config["form"], config["template"]["digest"]) for config in found] == [
        ("channel", bytes_digest(source.encode()))] * 2, "the untrained model's evaluation and the run's"
    assert ask(run, Question(text="1+1?", max_new_tokens=2)).tokens <= 2
    assert verify(run).failed == 0
    facts = replay_run(run, ReplayRequest())
    assert (wrong_steps(facts), len(facts["lines"])) == ([], 3)


def test_the_form_asks_weights_of_no_run_for_thinking(tmp_path):
    tokenizer(MARKS).save(tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    request = weights_request({"template": "plain"}, "cpu", "channel")
    # The template is made before the weights are read: it is what refuses.
    with pytest.raises(RequestError, match=r"data\.reasoning: channel does not fit data\.template: plain"):
        open_weights(str(tmp_path), request)
