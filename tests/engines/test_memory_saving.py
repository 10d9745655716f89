"""Attention functions and the loss without logits: the same numbers as the plain ways, gradients included."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import random_batch, reference_loss_sum, request, tiny_shape
from workings.config.training import MemoryConfig, MeshConfig
from workings.engines.jax import attention, feed_forward
from workings.engines.jax.attention import plain_attention
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.flash_attention import flash_refusal, make_flash_attention
from workings.engines.jax.layers import POLICIES
from workings.engines.jax.loss import loss_sum
from workings.engines.jax.sharding import make_layout
from workings.engines.jax.step import gradients
from workings.models.batch import Batch
from workings.models.shape import ModelShape

pytestmark = pytest.mark.slow


def attention_inputs(length: int, shape: ModelShape) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Random q, k, v ``[2, length, heads, H]`` and three segments with padding at the end."""
    draw = np.random.default_rng(0)
    q, k, v = (jnp.asarray(draw.normal(size=(2, length, heads, shape.head_dim)), jnp.float32)
               for heads in (shape.heads, shape.kv_heads, shape.kv_heads))
    cuts = jnp.asarray([[length // 5, length // 2, length - 7], [length // 3, length // 2, length]])
    index = jnp.arange(length)
    later = jnp.where(index < cuts[:, 1:2], 2, jnp.where(index < cuts[:, 2:], 3, 0))
    segments = jnp.where(index < cuts[:, :1], 1, later)
    return (q, k, v), segments.astype(jnp.int32)


def compare(function: Callable[..., jax.Array], length: int, shape: ModelShape, slides: bool) -> None:
    """Output and gradients against plain attention, at positions that are not padding."""
    qkv, segments = attention_inputs(length, shape)
    settings: dict[str, Any] = {
        "segment_ids": segments, "scale": shape.head_dim ** -0.5, "softcap": shape.attention_softcap,
        "window": jnp.int32(shape.sliding_window if slides else 2 ** 30), "slides": jnp.asarray(slides)}
    real = (segments > 0)[..., None, None]
    mix = jnp.asarray(np.random.default_rng(1).normal(size=qkv[0].shape), jnp.float32) * real

    def run(f: Callable[..., jax.Array]) -> tuple[Any, ...]:
        value, gradients = jax.jit(jax.value_and_grad(lambda qkv: jnp.sum(f(*qkv, **settings) * mix)))(qkv)
        return value, *gradients

    for ours, plain in zip(run(function), run(plain_attention), strict=True):
        np.testing.assert_allclose(ours, plain, atol=2e-5 * float(jnp.max(jnp.abs(plain))))


@pytest.mark.parametrize("slides", [False, True])
def test_chunked_attention_equals_plain(slides: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "QUERIES", 16)
    compare(attention.chunked_attention, 41, tiny_shape("gemma2", sliding_window=5), slides)


@pytest.mark.parametrize("slides", [True, pytest.param(False, marks=pytest.mark.full)])
def test_flash_attention_equals_plain_in_interpret_mode(slides: bool) -> None:
    """Segments, soft caps and windows, forward and backward, with the kernel's own block skipping.

    A row of 200 positions is no multiple of the kernel's blocks.
    """
    shape = tiny_shape("gemma2", head_dim=128, heads=2, kv_heads=1, sliding_window=100)
    layout = make_layout(tuple(jax.devices("cpu")[:1]), MeshConfig(fsdp=1))
    compare(make_flash_attention(shape, layout, interpret=True), 200, shape, slides)


@pytest.mark.parametrize(("size", "kind", "refused"), [
    (128, "TPU v2", True), (128, "TPU v3", True), (128, "TPU v4", False), (128, "TPU v5 lite", False),
    (128, "TPU v6 lite", False), (8, "TPU v4", True)])
def test_flash_is_for_chips_and_heads_that_its_kernel_compiles_for(size: int, kind: str, refused: bool) -> None:
    """`workings plan gemma-2b-v5e8 --on v3-8` ended in "Unsupported matmul RHS type" of the TPU's compiler."""
    assert bool(flash_refusal(tiny_shape(head_dim=size), kind)) is refused


@pytest.mark.parametrize("chunk", [0, 5, 48])
@pytest.mark.parametrize("family", ["gemma", "gemma2"])
def test_the_loss_whole_and_in_chunks_equals_the_reference(family: str, chunk: int) -> None:
    """Value and both gradients, with Gemma 2's cap and chunks that do not come out even."""
    shape = tiny_shape(family)
    draw = np.random.default_rng(0)
    hidden = jnp.asarray(draw.normal(size=(4, 12, shape.width)), jnp.float32)
    head = jnp.asarray(draw.normal(size=(61, shape.width)), jnp.float32)
    batch = random_batch(shape)
    targets, weights = batch.targets[0], batch.loss_mask[0]
    layout = make_layout(tuple(jax.devices("cpu")[:1]), MeshConfig(fsdp=1))
    split = jax.value_and_grad(lambda h, e: loss_sum(h, e, targets, weights, shape, layout, chunk), (0, 1))
    plain = jax.value_and_grad(lambda h, e: reference_loss_sum(h, e, targets, weights, shape.final_softcap), (0, 1))
    for ours, expected in zip(jax.tree.leaves(jax.jit(split)(hidden, head)), jax.tree.leaves(plain(hidden, head)),
                              strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5 * float(jnp.max(jnp.abs(expected))))


def test_no_array_of_positions_by_vocabulary_exists_with_a_chunk() -> None:
    """48 positions, 1100 tokens, chunks of 5: neither forward nor backward has 48 x 1100 of anything."""
    found = {}
    for chunk in (0, 5):
        engine = JaxEngine.open(request(tiny_shape(vocab=1100), memory=MemoryConfig(loss_chunk=chunk)))
        text = engine.compiled_step(Batch.blank((1, 4, 12))).as_text()
        found[chunk] = [size for size in ("48,1100", "4,12,1100", "1100,48") if f"[{size}]" in text]
    assert found[0]
    assert not found[5]


def test_feed_forward_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """48 positions in chunks of at least 10 (four of 12) against all at once: loss, gradient norm and new weights."""
    assert [feed_forward.chunk_count(n) for n in (2047, 4096, 4097, 8192, 65536)] == [1, 2, 1, 4, 8]
    results = []
    for least in (10, 1000):
        monkeypatch.setattr(feed_forward, "CHUNK", least)
        engine = JaxEngine.open(request(tiny_shape("gemma2"), memory=MemoryConfig(remat="layer")))
        assert feed_forward.chunk_count(48) == (4 if least == 10 else 1)
        state, result = engine.step(engine.init(0), random_batch(engine.spec.shape), 1e-3)
        results.append([result.loss, result.grad_norm, float(jnp.abs(state["params"]["model.norm.weight"]).sum())])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


def test_every_remat_policy_has_the_same_gradient() -> None:
    """Nine layers, so that the scan is a loop: to 1e-6 of the largest element; temporaries shrink in order."""
    engine = JaxEngine.open(request(tiny_shape("gemma2", layers=9)))
    params, found, kept = engine.init(0)["params"], {}, {}
    rows = random_batch(engine.spec.shape, rows=16, length=32)
    batch, total = {name: jnp.asarray(x) for name, x in rows.arrays.items()}, rows.divisor
    for name, policy in POLICIES.items():
        spec = replace(engine.spec, remat=policy)
        compiled = jax.jit(partial(gradients, spec)).lower(params, batch, jnp.float32(total)).compile()
        leaves = jax.tree.leaves(compiled(params, batch, jnp.float32(total)))
        found[name] = np.concatenate([np.ravel(x) for x in leaves])
        kept[name] = compiled.memory_analysis().temp_size_in_bytes
    for name, x in found.items():
        np.testing.assert_allclose(x, found["none"], atol=1e-6 * np.abs(found["none"]).max(), err_msg=name)
    assert kept["layer"] < kept["dots"] < kept["none"]
