"""One question to a trained run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.runs.load import open_run


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model wrote."""

    text: str
    finish_reason: str
    tokens: int

    def as_json(self) -> dict[str, Any]:
        """Keys of `ask --json`."""
        return {"completion": self.text, "finish_reason": self.finish_reason, "tokens": self.tokens}


def ask(run: Path, question: str, *, max_new_tokens: int = 256) -> Reply:
    """Put a question to a run's last checkpoint, greedily, in the chat template it was trained with.

    Raises:
        RequestError: no sealed run at that path.
        RecordError: it has no intact checkpoint.
    """
    loaded = open_run(run)
    completion = loaded.engine.generate(loaded.state, [loaded.template.prompt_ids(question)],
                                        max_new_tokens=max_new_tokens, stop_ids=loaded.template.stop_ids)[0]
    return Reply(text=loaded.tokenizer.decode(completion.tokens), finish_reason=completion.finish_reason,
                 tokens=len(completion.tokens))
