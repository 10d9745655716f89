"""Dropout of adapters on both engines: peft's formula with the same masks, and masks that depend on the place alone."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.engines.tiny import PROMPTS, losses, random_batch, request, tiny_shape
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.registry import find_engine
from workings.models.batch import Batch

pytestmark = pytest.mark.slow

RATE, STEPS, ROWS = 0.3, 4, 3
SHAPE = tiny_shape("gemma3", layers=3)
LORA = LoraConfig(name="lora", rank=3, alpha=7.5, dropout=RATE, target_modules=("q_proj", "o_proj", "down_proj"))
PROJECTIONS = ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj")
ENGINES = pytest.mark.parametrize("name", ["jax", "torch"])
Masks = dict[str, list[np.ndarray]]
"""By the name of a projection, one ``[micro batches x rows, S, in]`` for each step: True where a number is kept."""


@cache
def opened(name: str, *, dropout: float = RATE, remat: str = "none") -> Any:
    """An engine for several tests, because each engine compiles its own programs."""
    return find_engine(name).engine.open(request(
        SHAPE, method=LORA.model_copy(update={"dropout": dropout}), memory=MemoryConfig(remat=remat)))


def batch(number: int) -> Batch:
    return random_batch(SHAPE, micro=2, rows=ROWS, seed=number % 3)


def trained(engine: Any, state: Any, steps: int = STEPS) -> tuple[Any, list[float]]:
    return losses(engine, state, steps, micro=2, rows=ROWS)


def jax_run(engine: Any, state: Any) -> tuple[list[float], Masks]:
    """Losses, and the masks that follow from seed, step, micro batch, layer and projection."""
    from workings.engines.jax.lora import dropout_keys, dropout_tensors
    from workings.engines.jax.projection import DROPOUT_KEY

    def masks(step: int) -> Iterator[tuple[str, np.ndarray]]:
        per_micro_batch = [dropout_tensors(engine.spec.lora, SHAPE, key)
                           for key in dropout_keys(engine.spec.lora, engine.spec.seed, step, 2)]
        for projection in PROJECTIONS:
            for layer in range(SHAPE.layers):
                keys = [tensors[f"layers.{projection}.{DROPOUT_KEY}"][layer] for tensors in per_micro_batch]
                size = ROWS, 12, SHAPE.mlp_width if "mlp" in projection else SHAPE.width
                yield f"layers.{layer}.{projection}", np.concatenate(
                    [np.asarray(jax.random.bernoulli(key, 1 - RATE, size)) for key in keys])

    kept: Masks = {}
    for step in range(STEPS):
        for name, mask in masks(step):
            kept.setdefault(name, []).append(mask)
    return trained(engine, state)[1], kept


def torch_run(engine: Any, state: Any) -> tuple[list[float], Masks]:
    """Losses, and the masks as read from inputs and outputs of the modules."""
    from workings.engines.torch.lora import AdapterDropout

    seen: Masks = {}

    def look(module: Any, inputs: Any, out: Any) -> None:
        kept = out.detach() != 0
        torch.testing.assert_close(out.detach(), torch.where(kept, inputs[0].detach() / (1 - RATE), 0))
        seen.setdefault(module.name.removeprefix("model."), []).append(kept.numpy())

    for module in state.model.modules():
        if isinstance(module, AdapterDropout):
            module.register_forward_hook(look)
    found = trained(engine, state)[1]
    return found, {name: [np.concatenate(each[2 * step:2 * step + 2]) for step in range(STEPS)]
                   for name, each in seen.items()}


@pytest.mark.parametrize(("name", "run"), [("jax", jax_run), ("torch", torch_run)])
def test_steps_equal_peft_with_the_same_masks(name: str, run: Callable[..., Any], tmp_path: Path) -> None:
    from tests.engines.torch_oracle import their_loss, with_adapter

    class Given(torch.nn.Module):
        """In place of peft's own dropout."""

        def __init__(self, kept: list[np.ndarray]) -> None:
            super().__init__()
            self.kept = iter(kept)

        def forward(self, x: Any) -> Any:
            return x * torch.from_numpy(next(self.kept)) / (1 - RATE)

    engine = opened(name)
    state = engine.init(3)
    engine.export(state, tmp_path)
    found, masks = run(engine, state)
    model = with_adapter(tmp_path, tmp_path / "adapter", trainable=True)
    replaced = 0
    for full, module in model.named_modules():
        if own := getattr(module, "lora_dropout", None):
            assert own["default"].p == RATE
            own["default"] = Given(masks[full.partition("model.model.")[2].removeprefix("model.")])
            replaced += 1
    assert replaced == len(masks) == len(PROJECTIONS) * SHAPE.layers
    rule = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0)
    expected = []
    for number in range(STEPS):
        loss = their_loss(model, batch(number))
        rule.zero_grad()
        loss.backward()
        rule.step()
        expected.append(float(loss.detach()))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # The second forward of checkpointing drops the same.
    again = opened(name, remat="layer")
    assert trained(again, again.init(3))[1] == pytest.approx(found, rel=1e-6)
    every = [mask for each in masks.values() for mask in each]
    # Half of a mask is that of the other micro batch.
    halves = {half.tobytes() for mask in every for half in np.split(mask, 2)}
    assert len(halves) == 2 * len(every)
    count = sum(mask.size for mask in every)
    share = sum(int(mask.sum()) for mask in every) / count
    assert abs(share - (1 - RATE)) < 5 * (RATE * (1 - RATE) / count) ** 0.5


@ENGINES
def test_a_resumed_run_drops_the_same_and_another_seed_does_not(name: str, tmp_path: Path) -> None:
    shape = tiny_shape("llama", width=64, mlp_width=128)
    base = find_engine(name).engine.open(request(shape))
    base.export(base.init(0), tmp_path)
    settings: dict[str, Any] = {"method": QloraConfig(name="qlora", rank=4, alpha=8, dropout=RATE),
                                "memory": MemoryConfig(remat="layer"), "weights": tmp_path,
                                "precision": PrecisionConfig(parameters="bf16", compute="bf16")}
    first, other = (find_engine(name).engine.open(request(shape, **settings, seed=seed)) for seed in (0, 1))
    state, _ = losses(first, first.load(tmp_path), 3)
    (tmp_path / "saved").mkdir()
    first.save(state, tmp_path / "saved")
    _, straight = losses(first, state, 3, first=3)
    resumed, others = (losses(engine, engine.restore(tmp_path / "saved"), 3, first=3)[1] for engine in (first, other))
    assert straight == resumed
    assert straight != others


@ENGINES
def test_only_training_steps_drop(name: str, tmp_path: Path) -> None:
    dropping, plain = opened(name), opened(name, dropout=0.0)
    state, _ = trained(dropping, dropping.init(0), 2)
    dropping.save(state, tmp_path)
    same = plain.restore(tmp_path)
    assert dropping.evaluate(state, batch(0)).loss_sum == plain.evaluate(same, batch(0)).loss_sum
    np.testing.assert_array_equal(dropping.log_probs(state, batch(0)), plain.log_probs(same, batch(0)))
    asked = {"max_new_tokens": 6, "stop_ids": []}
    assert dropping.generate(state, PROMPTS, **asked) == plain.generate(same, PROMPTS, **asked)
