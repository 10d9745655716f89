"""Recipe section `rewards`: a list of reward functions with weights.

A completion's reward is the sum of weight times value over the list. The values themselves come from
`workings.scoring.rewards`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Tag, field_validator, model_serializer

from workings.config.section import Section, own_code, refused

USUAL_LIMITS = {"seconds": 60.0, "memory_gib": 4.0}
"""Default limits of a user's function."""
SHIPPED_REWARDS = ("answer", "exact", "math", "form", "steps", "length", "overlong", "judge", "environment")
"""Rewards that come with this project; any other is a function in a user's file."""

SHIPPED = "shipped reward"
FILE_REWARD = "scorer: FILE.py:FUNCTION"
"""How errors name a reward that is a user's function."""


class RewardFields(Section):
    """Keys of every reward."""

    weight: float = Field(default=1.0, allow_inf_nan=False)
    """Factor on the reward's value in the sum; a negative one punishes. Not 0."""

    @field_validator("weight")
    @classmethod
    def _a_weight_counts(cls, weight: float) -> float:
        if weight == 0:
            raise ValueError("a weight other than 0 (leave the reward out instead)")
        return weight


class ShippedReward(RewardFields):
    """A shipped reward without further keys."""

    scorer: Literal["answer", "exact", "math", "form", "steps", "length", "environment"]
    """`answer`, `exact`, `math`: 1 if the answer is correct, else 0, by the scorer of this name (numbers by value and
    texts by normalised match; exactly the same characters; as `answer`, and formulas by math-verify). `form`: 1 if the
    completion has the form of `data.reasoning`, else 0. `steps`: the share of correct equations in the reasoning, 0
    without equations. `length`: minus the share of the allowed new tokens that the completion takes. `environment`: the
    sum of the rewards that the recipe's `environment` gave for each turn."""


class OverlongReward(RewardFields):
    """DAPO's soft overlong punishment (Yu et al., 2025): 0, falling to -1 over the last tokens before the limit."""

    scorer: Literal["overlong"]
    """The completion's distance from the limit on new tokens."""
    buffer: int = Field(ge=1)
    """Tokens before the limit over which the value falls from 0 to -1; at most the limit on new tokens."""


class JudgeReward(RewardFields):
    """The score that a language model gives, from 0 to 1; see `workings reward judge`."""

    scorer: Literal["judge"]
    """A model that passed `workings reward judge`."""
    file: str = Field(min_length=1)
    """Its file from `workings reward judge`; a relative path starts from the recipe's directory."""


class FileReward(RewardFields):
    """A user's function, called once with all completions of a rollout.

    Its signature is that of TRL and Tunix: ``(prompts, completions, **columns) -> list[float]``.
    """

    scorer: str = Field(pattern=r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$")
    """`FILE.py:FUNCTION`; a relative path starts from the recipe's directory."""
    seconds: float = Field(default=USUAL_LIMITS["seconds"], gt=0, le=86_400)
    """Time limit of one call for all completions of a rollout, in seconds."""
    memory_gib: float = Field(default=USUAL_LIMITS["memory_gib"], ge=1, le=1024)
    """Memory limit of the process that computes the rewards, in GiB of address space (Linux). Functions share the
    process, and the largest of their limits holds."""

    @model_serializer(mode="wrap")
    def _without_usual_limits(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out limits that have their default, so that digests from before these keys stay."""
        return {key: value for key, value in written(self).items() if key not in USUAL_LIMITS or key in self.limits}

    @property
    def limits(self) -> dict[str, float]:
        """Limits that the recipe changes from their default."""
        return {key: getattr(self, key) for key, usual in USUAL_LIMITS.items() if getattr(self, key) != usual}

    @property
    def file(self) -> str:
        """The path as written."""
        return own_code(self.scorer)[0]

    @property
    def function(self) -> str:
        """Name of the function in the file."""
        return own_code(self.scorer)[1]


def _tag(value: Any) -> str | None:
    """The class of a value by its `scorer`; None for an unknown one."""
    # pydantic also calls this with a section when it serializes.
    name = value.get("scorer") if isinstance(value, Mapping) else getattr(value, "scorer", None)
    if not isinstance(name, str):
        return None
    # A pattern, not a literal, so an ordinary union cannot choose this class.
    if ".py:" in name:
        return FILE_REWARD
    if name not in SHIPPED_REWARDS:
        return None
    return f"scorer: {name}" if name in ("overlong", "judge") else SHIPPED


# pydantic puts the tag into an error's place; the colon distinguishes it from a key.
RewardConfig = Annotated[
    Annotated[ShippedReward, Tag(SHIPPED)]
    | Annotated[OverlongReward, Tag("scorer: overlong")]
    | Annotated[JudgeReward, Tag("scorer: judge")]
    | Annotated[FileReward, Tag(FILE_REWARD)],
    Discriminator(_tag, custom_error_type="unknown_reward",
                  custom_error_message=f"a mapping whose `scorer` is one of {', '.join(SHIPPED_REWARDS)}, "
                                       "or FILE.py:FUNCTION")]


def reward_name(config: RewardConfig) -> str:
    """Name of a reward in records and messages: `answer`, or `my_rewards.py:brevity`, without the file's folder."""
    if isinstance(config, FileReward):
        # Without the folder, which may contain a user's name and differs between machines.
        return f"{Path(config.file).name}:{config.function}"
    return config.scorer


def refuse_repeated(rewards: Sequence[RewardConfig]) -> None:
    """For a validator: refuses two rewards of the same name, whose values a record could not tell apart."""
    repeated = [name for name, count in Counter(map(reward_name, rewards)).items() if count > 1]
    if repeated:
        raise refused(f"rewards: {', '.join(repeated)} more than once",
                      "each reward once, because its values are recorded by name",
                      "one entry with the sum of the weights; functions of files with the same name need other names")
