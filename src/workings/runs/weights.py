"""A model that was not trained here: a folder of weights in Hugging Face's format, opened to be asked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.load import section_at
from workings.config.training import AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import Engine, EngineRequest, State
from workings.engines.registry import engine_names, find_engine
from workings.errors import RequestError
from workings.hardware.device import without_alias
from workings.models.chat import ChatTemplate
from workings.models.hub import weights_directory
from workings.models.shapes import from_hf_config
from workings.models.tokenizer import Tokenizer
from workings.record.digest import file_digest

DEVICES = ("auto", "cpu", "gpu", "cuda", "tpu")


@dataclass(frozen=True, kw_only=True)
class OpenedWeights:
    """Weights on an engine, ready to generate."""

    engine: Engine
    state: State
    tokenizer: Tokenizer
    template: ChatTemplate
    facts: dict[str, Any]
    """What is known of the model: name, revision, digest of every file of weights."""


@dataclass(frozen=True, kw_only=True)
class WeightsRequest:
    """How weights without a recipe are opened. What a run's recipe would say has to be said here."""

    template: str
    """Chat turns: `gemma`, `gemma4`, `tokenizer` (its own) or `plain`. Never guessed: the wrong one costs points."""
    engine: str = "jax"
    device: str = "auto"
    precision: str = "fp32"
    """Number format of weights and arithmetic: `fp32` or `bf16`."""
    tokenizer: Path | None = None
    """Directory of the tokenizer; None: beside the weights."""
    revision: str = "main"
    """Of a repository on the Hub."""


def open_weights(model: str, request: WeightsRequest) -> OpenedWeights:
    """Open weights in safetensors from a folder, or from the Hub by their id.

    Raises:
        RequestError: no such folder, no `config.json`, weights or tokenizer in it, an unknown template, engine or
            precision, or a device that is absent.
    """
    _check(request)
    directory, revision = weights_directory(model, request.revision)
    config = directory / "config.json"
    files = sorted(directory.glob("*.safetensors"))
    if not config.is_file() or not files:
        raise RequestError(f"{model}, without {'weights in safetensors' if config.is_file() else 'config.json'}",
                           "a sealed run, or a folder with config.json, *.safetensors and tokenizer.json",
                           "workings eval RUN --items ITEMS.jsonl --out DIR")
    tokenizer = Tokenizer.load(request.tokenizer or directory)
    template = ChatTemplate.for_config(request.template, tokenizer)
    precision = PrecisionConfig.model_validate({"parameters": request.precision, "compute": request.precision})
    engine = find_engine(request.engine).engine.open(EngineRequest(
        shape=from_hf_config(json.loads(config.read_text(encoding="utf-8"))),
        device=without_alias(request.device),
        optimizer=AdamWConfig(name="adamw"), precision=precision, memory=MemoryConfig(), mesh=MeshConfig(),
        seed=0, weights=directory))
    facts = {"id": directory.resolve().name if revision == "local directory" else model, "revision": revision,
             "precision": request.precision, "weights": {file.name: file_digest(file) for file in files}}
    return OpenedWeights(engine=engine, state=engine.load(directory, trainable=False), tokenizer=tokenizer,
                         template=template, facts=facts)


def _check(request: WeightsRequest) -> None:
    templates = section_at(["data"])[0].model_fields["template"].annotation
    known = tuple(getattr(templates, "__args__", ()))
    for name, given, allowed in (("--template", request.template, known),
                                 ("--precision", request.precision, ("fp32", "bf16")),
                                 ("--device", request.device, DEVICES),
                                 ("--engine", request.engine, tuple(engine_names()))):
        if given not in allowed:
            raise RequestError(f"{name} {given}".rstrip() if given else f"no {name}", f"one of {', '.join(allowed)}",
                               f"{name} {allowed[0]}")
