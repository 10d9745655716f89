"""Small models and batches for the engine tests."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.model import ShapeConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.safetensors_file import open_tensors
from workings.models.batch import Batch
from workings.models.registry import families
from workings.models.shape import ModelShape
from workings.models.shapes import shape_from_config
from workings.models.shards import shard_files
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE
from workings.objectives.top_tokens import TopTokens

FAMILIES = tuple(family.name for family in families() if "jax" not in family.refusals)
BF16 = PrecisionConfig(parameters="bf16", compute="bf16", moments="bf16", rounding="stochastic")
PROMPTS = [[5, 9, 33, 2, 60, 7, 7, 1, 12, 40, 3], [8, 21, 0, 17]]


def tiny_shape(family: str = "gemma", *, vocab: int = 61, layers: int = 0, **changes: Any) -> ModelShape:
    """A model of a few thousand parameters with every feature of its family switched on and in reach."""
    layers = layers or {"gemma4": 6, "qwen3_5": 4}.get(family, 2)
    config = ShapeConfig(family=family, layers=layers, width=32, mlp_width=48, heads=4,
                         kv_heads=2, head_dim=8, context=128)
    shape = shape_from_config(config, vocab)
    if family == "gemma4":  # two turns with own keys, then a sliding and a global layer without
        changes = {"sliding_window": 4, "sliding_pattern": 2, "global_head_dim": 16, "per_layer_width": 6,
                   "shared_kv_layers": 2, "shared_mlp_width": 96, "rotated_part": 0.5} | changes
    elif shape.sliding_pattern:
        changes = {"sliding_window": 4, "sliding_pattern": 2} | changes
        if family != "olmo3":  # its scale cannot be set
            changes = {"query_scale": 12 ** -0.5} | changes
    elif shape.linear_pattern:  # two turns of a layer with a state and one that attends
        changes = {"linear_pattern": 2, "linear_key_heads": 2, "linear_value_heads": 4, "linear_key_head_dim": 8,
                   "linear_value_head_dim": 6, "rotated_part": 0.5} | changes
    elif shape.unrotated_pattern:
        changes = {"unrotated_pattern": 2} | changes
    return ModelShape(**(shape.__dict__ | changes))


def request(shape: ModelShape, *, cpu_optimizations: bool = False, **changes: Any) -> EngineRequest:
    """A request for one CPU device, which runs the program of accelerators unless ``cpu_optimizations``."""
    settings: dict[str, Any] = {"precision": PrecisionConfig(), "memory": MemoryConfig(), "device": "cpu"} | changes
    memory = settings["memory"].model_copy(update={"cpu_optimizations": cpu_optimizations})
    return EngineRequest(shape=shape, **(settings | {"memory": memory}))


def reference_loss_sum(hidden: Any, head: Any, targets: Any, weights: Any, softcap: float = 0.0) -> Any:
    """Sum of ``weights * loss`` in JAX's own words, for derivatives that JAX finds by itself."""
    import jax
    import jax.numpy as jnp

    logits = jnp.einsum("bsd,vd->bsv", hidden, head)
    logits = softcap * jnp.tanh(logits / softcap) if softcap else logits
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]
    return -jnp.sum(picked * weights)


def random_batch(shape: ModelShape, *, micro: int = 1, rows: int = 4, length: int = 12, seed: int = 0) -> Batch:
    """Rows of different lengths; about half of the real positions are supervised."""
    draw = np.random.default_rng(seed)
    size = (micro, rows, length)
    lengths = draw.integers(3, length + 1, size=size[:2])
    real = np.arange(length) < lengths[..., None]
    weights = ((draw.random(size) < 0.5) & real).astype(np.float32)
    weights[..., 0] = 1.0
    return Batch(
        tokens=np.where(real, draw.integers(0, shape.vocab_size, size), 0).astype(np.int32),
        targets=np.where(weights > 0, draw.integers(0, shape.vocab_size, size), 0).astype(np.int32),
        loss_mask=weights, segment_ids=real.astype(np.int32),
        positions=np.where(real, np.arange(length), 0).astype(np.int32))


def roughened(engine: Any, seed: int = 3) -> Any:
    """A state of the JAX engine with random norms and larger matrices, without which several features are invisible."""
    import jax.numpy as jnp

    state = engine.init(seed)
    draw = np.random.default_rng(1)
    layers = {name: jnp.asarray(x + draw.normal(0, 0.3, x.shape).astype(np.float32), x.dtype)
              for name, x in state["params"]["layers"].items()}
    return state | {"params": state["params"] | {"layers": layers}}


def our_logits(engine: Any, state: Any, tokens: np.ndarray) -> np.ndarray:
    """``[B, S, V]`` logits of rows ``[B, S]`` without padding."""
    ones = np.ones((1, *tokens.shape), np.int32)
    found: np.ndarray = engine.logits(state, Batch(
        tokens=tokens[None], targets=0 * ones, loss_mask=ones.astype(np.float32), segment_ids=ones,
        positions=ones * np.arange(tokens.shape[1], dtype=np.int32)))
    return found


def losses(engine: Any, state: Any, steps: int, first: int = 0, **size: int) -> tuple[Any, list[float]]:
    """State and losses of an engine trained on a few random batches, from batch ``first`` on."""
    each = []
    for number in range(first, first + steps):
        state, result = engine.step(state, random_batch(engine.spec.shape, seed=number % 3, **size), 1e-2)
        each.append(result.loss)
    return state, each


def packed_batch(first: np.ndarray, second: np.ndarray) -> Batch:
    """Two rows of tokens in one sequence, then four positions of padding; every next token of a row is supervised."""
    tokens = np.concatenate([first, second, np.zeros(4, np.int32)])
    segments = np.concatenate([np.full(len(first), 1), np.full(len(second), 2), np.zeros(4)]).astype(np.int32)
    positions = np.concatenate([np.arange(len(first)), np.arange(len(second)), np.zeros(4)]).astype(np.int32)
    targets = np.concatenate([first[1:], [0], second[1:], [0], np.zeros(4)]).astype(np.int32)
    weights = np.concatenate([np.ones(len(first) - 1), [0], np.ones(len(second) - 1), [0], np.zeros(4)])
    parts = {"tokens": tokens, "targets": targets, "positions": positions, "segment_ids": segments}
    return Batch(loss_mask=weights.astype(np.float32)[None, None], **{k: v[None, None] for k, v in parts.items()})


def rewarded_adapters(engine: Any) -> dict[str, float]:
    """How far apart log probabilities are over three steps of a policy gradient on adapters, in nats.

    ``step``: those of the first step from those asked for before it. ``below``: those of the model below the trained
    adapters from those of the first model. ``moved``: those of the trained model from those of the first.
    """
    state, plain = engine.init(0), random_batch(engine.spec.shape, micro=2)
    first = engine.log_probs(state, plain)
    batch, of_steps = with_signals(plain, first), []
    for _ in range(3):
        state, result = engine.step(state, batch, 1e-2)
        of_steps.append(result.log_probs)
    found = {"step": of_steps[0], "below": engine.log_probs(engine.without_adapters(state), plain),
             "moved": engine.log_probs(state, plain)}
    return {name: float(np.abs(x - first).max()) for name, x in found.items()}


def with_signals(batch: Batch, log_probs: np.ndarray, seed: int = 0, divided_by: float = 0.0) -> Batch:
    """A batch whose tokens were sampled by a policy near the one that has these log probabilities."""
    draw = np.random.default_rng(seed)
    apart = draw.normal(size=(2, *log_probs.shape)) * 0.3
    advantage = np.broadcast_to(draw.normal(size=(*log_probs.shape[:2], 1)), log_probs.shape)
    signals = {ADVANTAGE: advantage, BEHAVIOR: log_probs + apart[0], REFERENCE: log_probs + apart[1]}
    return replace(batch, signals={name: x.astype(np.float32) for name, x in signals.items()}, divided_by=divided_by)


def with_top_tokens(batch: Batch, tokens: np.ndarray, log_probs: np.ndarray) -> Batch:
    """A batch with what a teacher says: ``[A, B, S, K]`` each."""
    objective = TopTokens(top_k=tokens.shape[-1])
    signals = {name: x[..., k].astype(np.float32) for x, names in (
        (tokens, objective.target_signals), (log_probs, objective.log_prob_signals)) for k, name in enumerate(names)}
    return replace(batch, signals=signals)


def plain_batch(shape: ModelShape, seed: int) -> Batch:
    """Unpacked rows, whose targets are the next tokens."""
    batch = random_batch(shape, seed=seed)
    mask = np.where(np.roll(batch.segment_ids, -1, -1) > 0, batch.loss_mask, 0)
    mask[..., -1] = 0
    return replace(batch, loss_mask=mask, targets=np.where(mask > 0, np.roll(batch.tokens, -1, -1), 0).astype(np.int32))


def same_tensors(whole: Path, shards: Path, *, count: int) -> None:
    """Assert that each file of a checkpoint has ``count`` shards in another folder, and the same tensors to the bit."""
    for file in whole.glob("*.safetensors"):
        one, other = open_tensors(file), open_tensors(shards / file.name)
        assert len(shard_files((path.name for path in shards.iterdir()), file.name)) == count
        assert {*one.names()} == {*other.names()}
        for name in one.names():
            assert (one.dtype(name), one.shape(name)) == (other.dtype(name), other.shape(name))
            assert one.read(name).tobytes() == other.read(name).tobytes(), name
