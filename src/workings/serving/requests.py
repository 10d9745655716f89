"""The requests of OpenAI's interface that the server understands. It refuses every other key.

Source: OpenAI's API reference, "Chat Completions" and "Completions (legacy)".
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_TOKENS = 1 << 15
"""Longest completion that may be requested, in tokens."""


class TextPart(BaseModel):
    """A part of a message; images and sounds are refused."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: None = None

    @property
    def turn(self) -> tuple[str, str]:
        """Role and text, as a chat template reads them."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return ("system" if self.role == "developer" else self.role), text


class Decoding(BaseModel):
    """Fields of both kinds of requests. Parameters of samplers that no engine has may only have no effect."""

    model_config = ConfigDict(extra="forbid")
    model: str
    temperature: float = Field(1.0, ge=0, le=2)
    n: int = Field(1, ge=1, le=128)
    seed: int | None = None
    stop: Annotated[list[str], Field(max_length=16)] = []
    stream: bool = False
    stream_options: dict[str, bool] | None = None
    top_p: Literal[1] | None = None
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_stop_is_a_list(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        values = {key: value for key, value in given.items() if value is not None}  # clients send null for defaults
        if not isinstance(values.get("stop", []), list):
            values["stop"] = [values["stop"]]
        return values


class ChatRequest(Decoding):
    """A request to ``/v1/chat/completions``."""

    echo: ClassVar[bool] = False
    messages: list[Message] = Field(min_length=1)
    max_tokens: int = Field(256, ge=1, le=MAX_TOKENS)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    logprobs: bool = False
    top_logprobs: Literal[0] | None = None
    response_format: dict[Literal["type"], Literal["text"]] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    tool_choice: Literal["none", "auto"] | None = None

    @model_validator(mode="after")
    def _the_last_turn_is_a_question(self) -> "ChatRequest":
        if self.messages[-1].role != "user":
            raise ValueError("the last message must be the user's")
        return self

    @property
    def longest(self) -> int:
        """The most tokens of an answer."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def wants_log_probs(self) -> bool:
        """Whether each token comes with its log probability."""
        return self.logprobs


class TextRequest(Decoding):
    """A request to ``/v1/completions``: texts, or token ids, that are continued."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: int = Field(16, ge=1, le=MAX_TOKENS)
    logprobs: int | None = Field(None, ge=0, le=1)
    echo: bool = False
    """Whether the answer begins with the prompt."""
    best_of: Literal[1] | None = None
    suffix: Literal[""] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts one by one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)  # type: ignore[arg-type]

    @property
    def longest(self) -> int:
        """The most tokens of a completion."""
        return self.max_tokens

    @property
    def wants_log_probs(self) -> bool:
        """Whether each token comes with its log probability."""
        return self.logprobs is not None
