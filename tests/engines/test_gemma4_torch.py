"""Gemma 4 on the PyTorch engine against plain transformers: its own class, eager attention, opened from our export.

Published bugs of other trainers are here as test cases; each one's docstring names the reports.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import losses, random_batch, request, tiny_shape
from tests.engines.torch_oracle import FORMS, roughened, same
from tests.engines.torch_oracle import opened as form_opened
from workings.config.method import QloraConfig
from workings.config.training import AdafactorConfig, MemoryConfig, PrecisionConfig
from workings.engines.torch import embedding
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.trace.tracker import LiveStorages
from workings.errors import RequestError
from workings.models.family import PER_LAYER_EMBEDDING
from workings.models.weights import tensor_shapes

HOST = MemoryConfig(per_layer_embeddings="host")
opened = partial(form_opened, "gemma4 E2B")


def test_four_bits_look_at_every_layer() -> None:
    """Layer 0, which slides, comes out even; the global layer after it does not."""
    shape = {"width": 40, "mlp_width": 64, "head_dim": 8, "global_head_dim": 14, "shared_mlp_width": 128}
    with pytest.raises(RequestError, match="k_proj of layer 1: it is 28 x 40"):
        opened(shape=shape, method=QloraConfig(name="qlora", rank=2))


@pytest.mark.slow
def test_a_table_on_the_host_gives_the_same_numbers(tmp_path: Path) -> None:
    """Bit for bit, in steps, text and files; with fp32 arithmetic on bf16 weights as well."""
    for number, precision in enumerate((PrecisionConfig(), PrecisionConfig(parameters="bf16", rounding="stochastic"))):
        found = []
        for memory in (MemoryConfig(), HOST):
            engine = opened(memory=memory, precision=precision)
            state, curve = losses(engine, roughened(engine), 3)
            folder = tmp_path / f"{number}{memory.per_layer_embeddings}"
            folder.mkdir()
            engine.save(state, folder)
            answers = engine.generate(state, [[1, 2, 3]], max_new_tokens=5, stop_ids=[])
            found.append((curve, answers, (folder / "model.safetensors").read_bytes()))
            table = state.model.base_model.embed_tokens_per_layer
            assert isinstance(table, embedding.FixedTable) == (memory is HOST)
            assert same(engine.restore(folder), state)
        assert found[0] == found[1]


@pytest.mark.parametrize(("family", "changes", "engine", "message"), [
    ("gemma3", {}, "torch", "a gemma3 model has no table for"),
    ("gemma4", FORMS["gemma4 31B"][1], "torch", "a gemma4 model has no table for"),
    ("gemma4", {}, "jax", "engine jax does not take memory.per_layer_embeddings: host"),
])
def test_a_table_that_cannot_be_on_the_host_is_refused(family: str, changes: Any, engine: str, message: str) -> None:
    from workings.engines.jax.engine import JaxEngine

    asked = request(tiny_shape(family, **changes), memory=HOST)
    with pytest.raises(RequestError, match=message):
        (TorchEngine if engine == "torch" else JaxEngine).open(asked)


def test_experts_are_refused_what_they_do_not_do() -> None:
    with pytest.raises(RequestError, match="one format for both"):
        form_opened("gemma4 26B-A4B", precision=PrecisionConfig(parameters="bf16", rounding="stochastic"))
    with pytest.raises(RequestError, match=r"adafactor cannot train model\.layers\.0\.experts"):
        form_opened("gemma4 26B-A4B", optimizer=AdafactorConfig(name="adafactor"))


@pytest.mark.parametrize("memory", [MemoryConfig(), HOST], ids=["device", "host"])
def test_a_step_makes_no_second_table(memory: MemoryConfig) -> None:
    """Stored in bf16 and computed in fp32, where a careless cast would take twice the table's memory."""
    shape = tiny_shape("gemma4", vocab=900, per_layer_width=64)
    asked = request(shape, memory=memory, precision=PrecisionConfig(parameters="bf16", rounding="stochastic"))
    elements = int(np.prod(tensor_shapes(shape)[PER_LAYER_EMBEDDING]))
    engine = TorchEngine.open(asked)
    state, live = engine.init(0), LiveStorages()
    live.hold(state.model.parameters(), "parameters")
    with live:
        engine.step(state, random_batch(shape, rows=2, length=8), 1e-3)
    made = [event.size for event in live.log.events if event.category != "parameters"]
    assert max(made) < elements  # a copy in the format of storage has two bytes an element
    assert sum(event.size == 2 * elements for event in live.log.events) == 1
