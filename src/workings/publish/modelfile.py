"""The file by which Ollama takes a GGUF file: its chat template in Go's language, and where answers end."""

from dataclasses import dataclass
from pathlib import Path

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.stop_tokens import StopTokens

MODELFILE = "Modelfile"
_USER, _MORE, _ANSWER, _SYSTEM = "first question", "second question", "an answer", "a system text"
NOT_WRITTEN = (f"{MODELFILE} has no TEMPLATE, because this chat template is not a fixed text around each turn: Ollama "
               "may render turns in another way; llama.cpp uses the model's own template")


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """Fixed texts around turns."""

    first: str
    """Before the first user's turn, without a system text."""
    answer: str
    """Between a user's turn and the answer."""
    next: str
    """Between an answer and the next user's turn."""
    system: tuple[str, str] | None
    """Before a system text, and between it and the user's turn; None: the template takes none."""


def write_modelfile(file: Path, weights: str, template: ChatTemplate, stop: StopTokens) -> list[str]:
    """Write Ollama's description of a GGUF file.

    Args:
        file: to write.
        weights: name of the GGUF file in the same folder.
        template: what the model was trained with.
        stop: tokens that end an answer.

    Returns:
        a note, if the template cannot be written in Ollama's language.
    """
    lines = [f"FROM ./{weights}", "PARAMETER temperature 0"]
    lines += [f'PARAMETER stop "{template.tokenizer.token(number)}"' for number in stop.ids]
    turns = _fixed_texts(template)
    if turns is not None:
        lines.append(f'TEMPLATE """{_go_template(turns)}"""')
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [] if turns is not None else [NOT_WRITTEN]


def _fixed_texts(template: ChatTemplate) -> _Turns | None:
    """What a template writes around turns; None if that depends on the turns themselves."""
    once = template.prompt_text(_USER)
    try:
        twice = template.prompt_text(_MORE, [("user", _USER), ("assistant", _ANSWER)])
    except RequestError:  # it drops or changes earlier turns
        return None
    first, _, answer = once.partition(_USER)
    between = twice.removeprefix(once + _ANSWER).partition(_MORE)[0]
    if twice != f"{once}{_ANSWER}{between}{_MORE}{answer}":
        return None
    bos = template.tokenizer.special_text("bos_token")
    # Ollama puts that token in front itself, as the GGUF file tells it to.
    begins = len(bos) if template.bos_id is not None and bos and first.startswith(bos) else 0
    try:
        with_system = template.prompt_text(_USER, [("system", _SYSTEM)])
    except RequestError:
        system = None
    else:
        before, _, rest = with_system.partition(_SYSTEM)
        if not rest.endswith(_USER + answer):
            return None
        system = before[begins:], rest.removesuffix(_USER + answer)
    turns = _Turns(first=first[begins:], answer=answer, next=between, system=system)
    texts = (turns.first, turns.answer, turns.next, *(turns.system or ()))
    # Marks of Go's language and of the file itself.
    return None if any(mark in text for text in texts for mark in ("{{", "}}", '"""')) else turns


def _go_template(turns: _Turns) -> str:
    before = '{{ if eq $last "assistant" }}' + turns.next + "{{ else }}" + turns.first + "{{ end }}"
    system = ""
    if turns.system is not None:
        before = '{{ if eq $last "system" }}' + turns.system[1] + "{{ else }}" + before + "{{ end }}"
        system = '{{ else if eq .Role "system" }}' + turns.system[0] + "{{ .Content }}"
    # Without "-" in the marks: white space in the texts is a part of the template.
    return ('{{ $last := "" }}{{ range .Messages }}{{ if eq .Role "user" }}' + before + "{{ .Content }}" + turns.answer
            + '{{ else if eq .Role "assistant" }}{{ .Content }}' + system
            + "{{ end }}{{ $last = .Role }}{{ end }}")
