"""vLLM as a sampler: its own server writes completions, with the adapters that the engine trains.

Adapters that have changed are written into a new folder and loaded under their digest as a name, which each answer must
have. vLLM would keep blocks of its prefix cache if the same path were loaded again.

Completions are sampled without seeds: on a CPU a seed crashes vLLM 0.32, and rounding depends on the batch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from workings.config.method import FullConfig
from workings.config.sampler import SamplerConfig
from workings.errors import RequestError, TrainingFailed
from workings.models.json_file import write_object

if TYPE_CHECKING:
    from workings.config.recipe import Recipe
    from workings.engines.base import Completion, Engine, State
    from workings.hardware.device import DeviceFacts
    from workings.models.shape import ModelShape

FLAGS = ("--enable-lora", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--enforce-eager")
"""Log probabilities at the sampling temperature, and no top-p or top-k out of a model's `generation_config.json`."""
CACHE_GIB = "VLLM_CPU_KVCACHE_SPACE"
"""Variable with the GiB of the cache on a CPU."""
ENVIRONMENT = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", CACHE_GIB: "1",
               "HF_HUB_OFFLINE": "1"}
"""Variables that a server starts with, unless they are set."""
SHARE, USUAL_SHARE = "--gpu-memory-utilization", 0.9
"""Argument with the share of a GPU that vLLM takes, and its default."""
WEIGHTS, CACHE = "vLLM: weights", "vLLM: cache"
CALL_SECONDS = 60.0
"""Time limit of every request but that for completions."""


class VllmConfig(SamplerConfig):
    """A vLLM server that samples completions of a run with adapters. `sampler: vllm` is short for `{name: vllm}`.

    It samples from the whole distribution: there is no `top_p` or `top_k`, because the update would then improve
    another distribution than the sampled one.
    """

    name: Literal["vllm"]
    """vLLM, in its own environment."""
    url: str = ""
    """Address of a running server on this machine, such as `http://127.0.0.1:8000`; empty: the run starts one."""
    command: str = Field(default="vllm", min_length=1)
    """Program that starts a server, such as `/opt/vllm/bin/vllm`."""
    # Not strict, because YAML and JSON give a list where a tuple is declared.
    arguments: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments of `vllm serve`, such as `[--gpu-memory-utilization, '0.4']`."""
    start_seconds: float = Field(default=1800, gt=0)
    """Time limit of the server's start."""
    seconds: float = Field(default=3600, gt=0)
    """Time limit of the completions of one rollout."""

    def memory(self, recipe: Recipe, shape: ModelShape, device: DeviceFacts) -> dict[str, int]:
        """Weights and cache, by formula; nothing for a server that runs already (`url`)."""
        from workings.config.training import BYTES_OF_FORMAT
        from workings.models.weights import parameter_count
        if self.url:
            return {}
        weights = BYTES_OF_FORMAT[recipe.precision.compute] * parameter_count(shape)
        if device.platform == "cpu":
            return {WEIGHTS: weights, CACHE: int(float((ENVIRONMENT | os.environ)[CACHE_GIB]) * 2**30)}
        words = [word for argument in self.arguments for word in argument.split("=", 1)]  # "--a=1" -> "--a", "1"
        share = float(words[words.index(SHARE) + 1]) if SHARE in words[:-1] else USUAL_SHARE
        # Its cache takes what the share leaves next to the weights.
        return {WEIGHTS: weights, CACHE: max(0, int(share * device.memory_limit_bytes) - weights)}

    def open(self, recipe: Recipe, engine: Engine, weights: Path | None) -> VllmSampler:
        """The sampler of a run."""
        return VllmSampler(recipe, engine, weights=weights)


SAMPLER = VllmConfig


class VllmSampler:
    """Samples completions from a server, which starts at the first request and ends with this object."""

    def __init__(self, recipe: Recipe, engine: Engine, *, weights: Path | None) -> None:
        """Starts nothing yet. Raises `RequestError` for a recipe without adapters, or weights that are in no folder."""
        assert isinstance(recipe.sampler, VllmConfig)  # its section opens it
        if isinstance(recipe.method, FullConfig) or weights is None:
            raise RequestError(f"sampler.name: vllm does not take method.name: {recipe.method.name} with model.source: "
                               f"{recipe.model.source}", "adapters on weights in a folder, which a server can load",
                               "method.name=lora, with a pretrained model; or no sampler")
        self._config = recipe.sampler
        self._engine, self._method, self._weights = engine, recipe.method, weights
        self._longest, self._compute = recipe.data.max_length, recipe.precision.compute
        self._folder = Path(tempfile.mkdtemp(prefix="workings-vllm-"))
        self.url = self._config.url.rstrip("/")  # empty until the server is started
        self._version = ""
        # Digest and folder of the adapters that the server has; an empty digest before the first ones.
        self._loaded, self._adapters = "", self._folder
        self._end: Callable[[], Any] = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def tag(self) -> dict[str, str]:
        """Name and version of the server, and digest of the adapters of the last completions."""
        return {"name": self._config.name, "version": self._version, "adapter": self._loaded}

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One sampled completion per prompt; a state of None: with the adapters that `load` took over.

        Raises `TrainingFailed` if the server failed or gave another answer, and `RequestError` if it does not start.
        """
        from workings.engines.base import Completion
        if state is not None:
            self.load(state)
        answer = self._ask("/v1/completions", {
            "model": self._loaded, "prompt": [[*map(int, prompt)] for prompt in prompts], "max_tokens": max_new_tokens,
            "temperature": temperature, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "logprobs": 0,
            "stop_token_ids": [*stop_ids], "return_token_ids": True}, self._config.seconds)
        choices = sorted(answer["choices"], key=lambda choice: choice["index"])
        if answer.get("model") != self._loaded or len(choices) != len(prompts):
            raise TrainingFailed(f"vLLM answered {len(choices)} of {len(prompts)} prompts with the adapters "
                                 f"{str(answer.get('model'))[:80]!r}, but {self._loaded[:16]}… were requested")
        completions = [Completion.of(choice["token_ids"], stop_ids, choice["logprobs"]["token_logprobs"])
                       for choice in choices]
        if any([*choice["prompt_token_ids"]] != [*prompt] for choice, prompt in zip(choices, prompts, strict=True)):
            raise TrainingFailed("vLLM answered other prompts than requested")
        return completions

    def load(self, state: State) -> None:
        """Loads a state's adapters into the server, if they have changed. Raises as `sample`."""
        from workings.engines import checkpoint_files as files
        from workings.record.digest import file_digest
        if not self.url:
            self._start()
        if not self._version:
            self._version = str(self._ask("/version")["version"])
        folder = Path(tempfile.mkdtemp(prefix="adapter-", dir=self._folder))
        self._engine.save(state, folder)
        (folder / files.OPTIMIZER_FILE).unlink()
        digest = file_digest(folder / files.ADAPTER_FILE)
        if digest == self._loaded:
            shutil.rmtree(folder)
            return
        write_object(folder / files.ADAPTER_CONFIG, files.adapter_config(self._method, self._method.target_modules))
        self._ask("/v1/load_lora_adapter", {"lora_name": digest, "lora_path": str(folder)})
        if self._loaded:
            self._ask("/v1/unload_lora_adapter", {"lora_name": self._loaded})
            shutil.rmtree(self._adapters)
        self._loaded, self._adapters = digest, folder

    def _start(self) -> None:
        """Starts a server, and waits until it answers. Raises `RequestError` with its last lines if it does not."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        log = self._folder / "server.log"
        command = [self._config.command, "serve", str(self._weights), "--host", "127.0.0.1", "--port", str(port),
                   "--dtype", {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[self._compute],
                   "--max-model-len", str(self._longest), "--max-lora-rank", str(max(8, self._method.rank)),
                   *FLAGS, *self._config.arguments]
        try:
            with log.open("wb") as out:
                process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True,
                                           env=ENVIRONMENT | os.environ)
        except OSError as error:
            raise RequestError(f"sampler.command: {self._config.command} does not start ({error.strerror})",
                               "the program of vLLM, in its own environment",
                               "sampler.command=/path/to/vllm, or sampler.url of a server that runs") from None
        self._end = weakref.finalize(self, _stop, process, self._folder)
        deadline = time.monotonic() + self._config.start_seconds
        self.url = f"http://127.0.0.1:{port}"
        while not self._is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                last = " / ".join(log.read_text(errors="replace").splitlines()[-3:])[-300:]
                self._end()
                raise RequestError(f"{self._config.command} serve did not start: {last}",
                                   "a server of vLLM that runs on this machine", f"run it by hand: {' '.join(command)}")
            time.sleep(1)

    def _is_up(self) -> bool:
        with suppress(TrainingFailed):
            self._ask("/health", seconds=5)
            return True
        return False

    def _ask(self, path: str, body: Mapping[str, Any] | None = None, seconds: float = CALL_SECONDS) -> Any:
        """The answer to a request as JSON, else as text. Raises `TrainingFailed`."""
        # Here, because this module is read with every recipe.
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers={"Content-Type": "application/json"})  # noqa: S310
        try:
            with urlopen(request, timeout=seconds) as reply:  # noqa: S310 - the address is the recipe's own
                text = reply.read().decode()
        except HTTPError as error:
            raise TrainingFailed(f"vLLM, {path}: {error.code} {error.read().decode(errors='replace')[:300]}") from None
        except (OSError, HTTPException) as error:
            raise TrainingFailed(f"vLLM at {self.url}, {path}: {error}") from None
        return json.loads(text) if text[:1] == "{" else text


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Ends a server with the processes that it has started, and removes its folder."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)
