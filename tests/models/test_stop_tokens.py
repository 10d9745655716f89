"""Files of a model's folder that name different stop tokens."""

import json
from pathlib import Path

import pytest

from workings.models.chat import ChatTemplate
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.export import write_tokenizer


def opened(folder: Path, eos: str, **configs: object) -> ChatTemplate:
    """Gemma's turns with a tokenizer whose files say that a text ends with ``eos``."""
    tokenizer = train_tokenizer(["1+1=2"], 400)
    tokenizer.settings["eos_token"] = eos
    tokenizer.save(folder)
    for name, ids in configs.items():
        (folder / f"{name}.json").write_text(json.dumps({"eos_token_id": ids}))
    return ChatTemplate.for_config("gemma", Tokenizer.load(folder))


@pytest.mark.parametrize("ids", [1, [1, 5], None])
def test_files_that_agree_leave_both_tokens(ids: object, tmp_path: Path) -> None:
    template = opened(tmp_path, "<eos>", config=ids, generation_config=ids)
    assert StopTokens.of(template, tmp_path) == StopTokens(ids=(5, 1)) == StopTokens.of(template, None)


def test_a_wrong_end_of_text_is_said_and_not_exported(tmp_path: Path) -> None:
    template = opened(tmp_path, "<start_of_turn>", config=5)
    stop = StopTokens.of(template, tmp_path)
    assert stop.ids == (5,)
    for word in ("tokenizer_config.json says that a text ends with <start_of_turn>", "config.json says <end_of_turn>"):
        assert word in stop.disagreement
    out = tmp_path / "out"
    write_tokenizer(template, stop, out)
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [5]
    exported = ChatTemplate.for_config("gemma", Tokenizer.load(out))
    assert exported.stop_ids == [5]
    (out / "config.json").write_text('{"eos_token_id": [5]}')
    assert not StopTokens.of(exported, out).disagreement
