"""The tokens that end an answer of a trained model, whose files may name different ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.models.chat import ChatTemplate
from workings.models.json_file import read_object

CONFIGS = ("config.json", "generation_config.json")


@dataclass(frozen=True, kw_only=True)
class StopTokens:
    """Tokens that end an answer of a trained model."""

    ids: tuple[int, ...]
    """The one that training teaches comes first."""
    disagreement: str = ""
    """A sentence, if the files name different ones; then `ids` has only the one that training teaches."""

    @classmethod
    def of(cls, template: ChatTemplate, folder: Path | None) -> "StopTokens":
        """Stop tokens of a run that began with the published weights in ``folder``, if there is one."""
        tokenizer = template.tokenizer
        learned, eos = template.stop_ids[0], tokenizer.eos_id
        if folder is None or eos is None or eos == learned:
            return cls(ids=tuple(template.stop_ids))
        for name in CONFIGS:
            ids = _stop_ids(folder / name)
            if ids and eos not in ids:
                others = " and ".join(map(tokenizer.token, ids))
                return cls(ids=(learned,), disagreement=(
                    f"the model's tokenizer_config.json says that a text ends with {tokenizer.token(eos)}, its {name} "
                    f"says {others}; training teaches {tokenizer.token(learned)}, and exports name it alone"))
        return cls(ids=tuple(template.stop_ids))


def _stop_ids(file: Path) -> list[int]:
    """`eos_token_id` of a file, which may be one number or several; empty if it has none."""
    content: dict[str, Any] = read_object(file) if file.is_file() else {}
    text_config = content.get("text_config")
    if "eos_token_id" not in content and isinstance(text_config, dict):
        content = text_config
    value = content.get("eos_token_id")
    numbers = value if isinstance(value, list) else [value]
    return [number for number in numbers if type(number) is int]
