"""Gemma 4 on the PyTorch engine against plain transformers: its own class, eager attention, opened from our export.

Published bugs of other trainers are here as test cases; each one's docstring names the reports.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import losses, random_batch, request, tiny_shape
from tests.engines.torch_oracle import opened as form_opened
from tests.engines.torch_oracle import roughened, same
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.torch import embedding
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.trace.tracker import LiveStorages
from workings.models.family import PER_LAYER_EMBEDDING
from workings.models.weights import tensor_shapes

HOST = MemoryConfig(per_layer_embeddings="host")
opened = partial(form_opened, "gemma4 E2B")


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
