"""A sampled completion as a candidate for training, read from a line of a unit's predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workings.data.traces import split_completion
from workings.evaluation.predictions import item_of
from workings.record.digest import json_digest
from workings.scoring.items import UNSPECIFIED

NO_TEXT, CUT_OFF, OTHER_FORM = "no text", "cut off", "another form"
CONTROL, WHITE_SPACE = "control tokens", "white space at its ends"
"""Reasons why a completion cannot be trained on, regardless of its score."""
RIGHT = 1.0
"""The score of a correct answer."""
_LABELS = ("section", "category", "difficulty")


@dataclass(frozen=True, kw_only=True)
class SampleOrigin:
    """Origin of all samples of a unit."""

    form: str
    """Form of reasoning and answer: one of `workings.data.traces.STYLES`."""
    source: str
    """Name of the model, with the beginning of its digest."""
    drawn_from: str
    """Digest of the model: the root of its run, or one over its weights."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "SampleOrigin":
        """The origin in a unit's ``eval_config.json``."""
        model, root = config["model"], config["made_from"]
        # A run has a name, other weights have an id, and a caller may have described neither.
        name = model.get("run") or model.get("id") or "a model that was not described"
        # Weights without a run have no root; the digest is then one over the digests of their files.
        digest = root if isinstance(root, str) else json_digest(model.get("weights", dict(model)))
        return cls(form=str(config["form"]), source=f"samples of {name} {digest[:16]}", drawn_from=digest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A completion of a prompt with its score and its problems."""

    prompt_id: str
    number: int
    """Number among the samples of its prompt, from 0."""
    prompt: str
    text: str
    score: float
    seed: int
    """Sampling seed; -1 for a greedy completion."""
    tokens: int
    labels: Mapping[str, Any]
    """Section, category, difficulty and earlier turns of its item, as far as it has them."""
    problem: str
    """A reason why it cannot be trained on; empty if it can."""
    has_wrong_step: bool = False
    steps: tuple[str, ...] = ()
    answer: str = ""

    @property
    def is_right(self) -> bool:
        """Whether its answer is correct."""
        return self.score == RIGHT

    @property
    def has_ended(self) -> bool:
        """Whether the model ended it itself, and a row can hold it."""
        return self.problem in ("", OTHER_FORM)

    @property
    def facts(self) -> dict[str, Any]:
        """Number, seed and score, as metadata of a trace or a pair."""
        return {"sample": self.number, **({"seed": self.seed} if self.seed >= 0 else {}), "score": self.score}


def sample_of(row: Mapping[str, Any], form: str) -> Candidate:
    """The sample of a line of predictions in a form (see `SampleOrigin`). Raises `RecordError`."""
    text = row["completion"]
    problem, parts = "", None
    if not isinstance(text, str) or "completion_sha256" in row or "error" in row or not text.strip():
        text, problem = "", NO_TEXT
    elif row["finish_reason"] != "stop":
        problem = CUT_OFF
    # In a row such a token would end or forge a turn.
    elif row.get("control_tokens"):
        problem = CONTROL
    # As here, another text than the sample would be trained on: chat templates remove white space.
    elif text != text.strip():
        problem = WHITE_SPACE
    elif row["format_ok"] is not True or (parts := split_completion(text, form)) is None:
        problem = OTHER_FORM
    steps, answer = parts or ((), "")
    item = item_of(row)
    labels = {name: value for name in _LABELS if (value := getattr(item, name)) not in (UNSPECIFIED, "")}
    if item.history:
        labels["history"] = item.history
    return Candidate(prompt_id=row["id"], number=row["sample"], prompt=row["prompt"], text=text, score=row["score"],
                     seed=row.get("seed", -1), tokens=row["completion_tokens"], labels=labels, problem=problem,
                     has_wrong_step=row["steps_valid"] < row["steps_checked"], steps=steps, answer=answer)
