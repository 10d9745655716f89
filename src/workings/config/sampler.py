"""Recipe section `sampler`: a program that samples completions in place of the engine."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from workings.config.section import Section


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


def _written_out(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


NamedSampler = Annotated[SamplerConfig, BeforeValidator(_written_out)]
"""The section, which may be its name alone."""
