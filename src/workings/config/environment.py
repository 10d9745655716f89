"""Recipe sections of rollouts: `environment`, in which the model acts, and `sampler`, in place of the engine."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from workings.config.rewards import USUAL_LIMITS
from workings.config.section import Section, own_code

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
    def is_foreign(self) -> bool:
        """Whether it is never played from a record: a user's own code, or a server."""
        return bool(self.file or self.server)

    @property
    def server(self) -> str:
        """Address of the server that replies; empty for any other."""
        return str(self.options.get("url", "")) if self.name == "openenv" else ""

    @property
    def file(self) -> str:
        """The path of a user's own environment, as written; empty for any other."""
        return own_code(self.name)[0]


def _written_out(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


NamedEnvironment = Annotated[EnvironmentConfig, BeforeValidator(_written_out)]
"""The section, or only its name."""


class SamplerConfig(Section):
    """A vLLM server that samples completions of a run with adapters. `sampler: vllm` is short for `{name: vllm}`.

    It samples from the whole distribution: there is no `top_p` or `top_k`, because the update would then improve
    another distribution than the sampled one.
    """

    name: Literal["vllm"]
    """vLLM, in its own environment."""
    url: str = ""
    """Address of a running server, such as `http://127.0.0.1:8000`, and reads files of this machine; empty: the run
    starts one."""
    command: str = Field(default="vllm", min_length=1)
    """Program that starts a server, such as `/opt/vllm/bin/vllm`."""
    # Not strict, because YAML and JSON give a list where a tuple is declared.
    arguments: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments of `vllm serve`, such as `[--gpu-memory-utilization, '0.4']`."""
    ahead: bool = False
    """Whether the server samples the next rollout while the engine takes the last update of the present one. Its
    completions then come from weights that are one update old, never older; the record says which, and each token's
    ratio is to its probability under those weights."""
    start_seconds: float = Field(default=1800, gt=0)
    """Time limit of the server's start."""
    seconds: float = Field(default=3600, gt=0)
    """Time limit of the completions of one rollout."""


NamedSampler = Annotated[SamplerConfig, BeforeValidator(_written_out)]
"""The section, or only its name."""
