"""The token that ends an answer, where the files of a model's folder name different ones."""

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
    """One sentence, if files of the folder that training began with name different ones; then `ids` has only one."""

    @classmethod
    def of(cls, template: ChatTemplate, folder: Path | None) -> "StopTokens":
        """Stop tokens of a run; ``folder``: of the published weights that the tokenizer comes from, if there is one."""
        tokenizer = template.tokenizer
        learned, eos = template.stop_ids[0], tokenizer.eos_id
        named = {name: _stop_ids(folder / name) for name in CONFIGS} if folder is not None else {}
        wrong = [name for name, ids in named.items() if ids and eos not in ids]
        if eos is None or eos == learned or not wrong:
            return cls(ids=tuple(template.stop_ids))
        theirs = " and ".join(tokenizer.token(number) for number in named[wrong[0]])
        return cls(ids=(learned,), disagreement=(
            f"the model's tokenizer_config.json says that a text ends with {tokenizer.token(eos)}, its {wrong[0]} says "
            f"{theirs}; training teaches {tokenizer.token(learned)}, and exports name it alone"))


def _stop_ids(file: Path) -> list[int]:
    """`eos_token_id` of a file, which may be one number or several; empty where it says none."""
    content: dict[str, Any] = read_object(file) if file.is_file() else {}
    part = content.get("text_config")
    value = content.get("eos_token_id", part.get("eos_token_id") if isinstance(part, dict) else None)
    return [number for number in (value if isinstance(value, list) else [value]) if type(number) is int]
