"""The Modelfile: what Ollama renders is what the run was trained with."""

from pathlib import Path

from workings.models.chat import ChatTemplate
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.gguf_file import NOT_WRITTEN, write_modelfile

GEMMA = """FROM ./model.gguf
PARAMETER temperature 0
PARAMETER stop "<end_of_turn>"
PARAMETER stop "<eos>"
TEMPLATE \"\"\"{{ $last := "" }}{{ range .Messages }}{{ if eq .Role "user" }}{{ if eq $last "system" }}

{{ else }}{{ if eq $last "assistant" }}<end_of_turn>
<start_of_turn>user
{{ else }}<start_of_turn>user
{{ end }}{{ end }}{{ .Content }}<end_of_turn>
<start_of_turn>model
{{ else if eq .Role "assistant" }}{{ .Content }}{{ else if eq .Role "system" }}<start_of_turn>user
{{ .Content }}{{ end }}{{ $last = .Role }}{{ end }}\"\"\"
"""


def written(template: ChatTemplate, folder: Path) -> tuple[str, list[str]]:
    notes = write_modelfile(folder / "Modelfile", "model.gguf", template, StopTokens.of(template, None))
    return (folder / "Modelfile").read_text(), notes


def test_gemmas_turns_become_a_template_of_go(tmp_path: Path) -> None:
    template = ChatTemplate.for_config("gemma", train_tokenizer(["1+1=2"], 400))
    # Without <bos>, which Ollama adds.
    assert written(template, tmp_path) == (GEMMA, [])


def test_a_template_that_drops_earlier_answers_is_left_out_and_said(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["1+1=2"], 400)
    tokenizer.settings["chat_template"] = (
        "{% for m in messages %}{% if m.role == 'user' or loop.last %}{{ m.content }}<end_of_turn>{% endif %}"
        "{% endfor %}")
    text, notes = written(ChatTemplate.for_config("tokenizer", tokenizer), tmp_path)
    assert "TEMPLATE" not in text
    assert notes == [NOT_WRITTEN]
