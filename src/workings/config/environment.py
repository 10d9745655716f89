"""Recipe section of episodes: `environment`, in which the model acts."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from workings.config.rewards import USUAL_LIMITS
from workings.config.section import Section, own_code, written_out

Scalar = bool | int | float | str


class EnvironmentConfig(Section):
    """An environment and its limits. `environment: NAME` is short for `environment: {name: NAME}`."""

    name: str = Field(pattern=r"^([a-z][a-z0-9-]*(:[A-Za-z0-9_.-]+)?|.+\.py:[A-Za-z_][A-Za-z0-9_]*)$")
    """`calculator`, `guess-number`, `frozen-lake`; `reasoning-gym:TASK`, a task of that library;
    `verifiers:TASKSET`, an installed taskset of that library (0.4); `openenv:PACKAGE.MODULE.CLASS`, an
    installed environment of that library (0.10), or `openenv` with the address of a server in `options.url`; or
    `FILE.py:CLASS`, a class of your own with `reset(seed, row)` and `step(text)`, whose path starts from the recipe's
    directory."""
    turns: int = Field(default=8, ge=1, le=1000)
    """Most turns of the model in an episode; a longer one is cut off."""
    tasks: int = Field(default=256, ge=1)
    """Number of tasks, if the environment makes them (`data.traces: environment`)."""
    options: dict[str, Scalar] = Field(default_factory=dict)
    """Arguments of the environment's class, such as `{size: 4}`."""
    seconds: float = Field(default=USUAL_LIMITS["seconds"], gt=0, le=86_400)
    """Time limit of one turn of all episodes of a rollout, in seconds."""
    memory_gib: float = Field(default=USUAL_LIMITS["memory_gib"], ge=1, le=1024)
    """Memory limit of the process that the environment runs in, in GiB of address space (Linux)."""

    @property
    def server(self) -> str:
        """Address of the server that replies; empty for any other."""
        return str(self.options.get("url", "")) if self.name == "openenv" else ""

    @property
    def file(self) -> str:
        """The path of a user's own environment, as written; empty for any other."""
        return own_code(self.name)[0]


NamedEnvironment = Annotated[EnvironmentConfig, BeforeValidator(written_out)]
"""The section, or only its name."""
