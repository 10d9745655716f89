"""What holds for every family on the PyTorch engine, compared with plain transformers: its classes, our export.

What one family alone has is in a file for itself.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.engines.tiny import BF16, losses, our_logits, packed_batch, random_batch
from tests.engines.torch_oracle import (
    FORMS,
    gradients,
    opened,
    plain,
    roughened,
    same,
    their_logits,
    their_loss,
    with_adapter,
)
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import AdafactorConfig, AdamW8bitConfig, MemoryConfig, PrecisionConfig
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.lora import base_weights
from workings.models.batch import Batch
from workings.models.weights import is_frozen, tensor_shapes

GEMMA4 = [form for form in FORMS if form.startswith("gemma4")]
QWEN = [form for form in FORMS if form.startswith("qwen3.5")]
NEW = ["smollm3", "olmo3", "qwen3.5 4B"]
OLDER = ["gemma", "gemma2", "gemma3 4B", "llama 3.1", "qwen2", "qwen2 7B", "qwen3"]
LORA = LoraConfig(name="lora", rank=3, alpha=6)
FEWER = LORA.model_copy(update={"target_modules": ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj")})
STATE = LORA.model_copy(update={"target_modules": ("in_proj_qkv", "in_proj_z", "out_proj", "q_proj")})
PACKED = {"": {}, "chunked": {"memory": MemoryConfig(attention="chunked", remat="layer", loss_chunk=5)}}


@pytest.mark.parametrize("form", [*OLDER, *NEW[:2], *GEMMA4, *QWEN])
def test_logits_loss_and_every_gradient_equal_transformers(form: str, tmp_path: Path) -> None:
    """Weights go out by our export and come back by theirs and by ours.

    Rows of layers with a state have more than a chunk of 64 positions, so that it is handed on. Attention adds up in
    the order of transformers: on some processors roundings of another order grow in Qwen 3.5 and Gemma 4 E2B.
    """
    length = 150 if form in QWEN else 14
    engine = opened(form, memory=MemoryConfig(attention="plain" if form in [*QWEN, "gemma4 E2B"] else "auto"))
    state, batch = roughened(engine), random_batch(engine.spec.shape, length=length)
    engine.export(state, tmp_path)
    model = plain(tmp_path)
    tokens = np.random.default_rng(5).integers(0, 61, (2, length)).astype(np.int32)
    ours, theirs = our_logits(engine, state, tokens), their_logits(model, tokens)
    assert np.abs(theirs).max() > 0.5
    # A state over 150 positions adds up roundings: 1.2e-5 on an AMD EPYC.
    assert np.abs(ours - theirs).max() < (2e-5 if form in QWEN else 1e-5) * np.abs(theirs).max()
    np.testing.assert_array_equal(our_logits(engine, engine.load(tmp_path), tokens), ours)
    loss = their_loss(model, batch)
    loss.backward()
    found = gradients(engine, state, batch)
    torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
    expected = {name: x.grad for name, x in model.named_parameters() if not is_frozen(name, engine.spec.shape)}
    assert found.keys() == expected.keys()
    largest = max(float(x.abs().max()) for x in expected.values())
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, rtol=2e-4, atol=5e-5 * largest, msg=name)


@pytest.mark.parametrize("form", [*OLDER, *NEW, "olmo3 stretched", *GEMMA4])
def test_a_cache_and_recomputed_layers_change_nothing(form: str) -> None:
    """Text of the cache is the likeliest of a whole forward without one; recomputed gradients are equal bit for bit.

    transformers #45242, #45312: without a cache (as in training) layers that share keys had none and gave garbage.
    unsloth-zoo #813: checkpointing lost the gradient that shared layers send to the keys of an earlier one.
    """
    found = []
    for remat in ("none", "layer"):
        engine = opened(form, memory=MemoryConfig(remat=remat))
        state, batch = roughened(engine), random_batch(engine.spec.shape, length=24)
        batch.loss_mask[:] = 1.0
        found.append(gradients(engine, state, batch))
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())
    prompts = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7]]
    for prompt, answer in zip(prompts, engine.generate(state, prompts, max_new_tokens=16, stop_ids=[]), strict=True):
        row = np.array([prompt + answer.tokens], np.int32)
        assert answer.tokens == our_logits(engine, state, row)[0, len(prompt) - 1:-1].argmax(-1).tolist()


@pytest.mark.parametrize(("form", "how"), [
    *((form, how) for form in ("gemma", "gemma2", "gemma3") for how in ("", "chunked")),
    *((form, "") for form in (*NEW[:2], *GEMMA4)), ("gemma4 E2B", "chunked")])
def test_packed_rows_have_the_loss_and_gradient_of_separate_rows(form: str, how: str) -> None:
    draw = np.random.default_rng(0)
    packed = packed_batch(*(draw.integers(1, 61, n).astype(np.int32) for n in (7, 9)))
    separate = Batch(**{name: np.stack([x[0, 0, :7].tolist() + [0] * 9, x[0, 0, 7:16].tolist() + [0] * 7])[None]
                        .astype(x.dtype) for name, x in packed.arrays.items()})
    engine, apart = opened(form, **PACKED[how]), opened(form, memory=MemoryConfig(attention="plain"))
    _, one = engine.step(roughened(engine), packed, 1e-3)
    _, two = apart.step(roughened(apart), separate, 1e-3)
    np.testing.assert_allclose([one.loss, one.grad_norm], [two.loss, two.grad_norm], rtol=2e-5)


@pytest.mark.parametrize("form", [*NEW, *GEMMA4])
def test_adapters_and_merged_weights_are_the_trained_model(form: str, tmp_path: Path) -> None:
    """Below the adapters nothing moves; peft reads the adapter, transformers the merged weights.

    Layers of Gemma 4 without own keys have no adapter for them.
    """
    base, out = tmp_path / "base", tmp_path / "out"
    base.mkdir()
    out.mkdir()
    first = opened(form)
    first.export(roughened(first), base)
    engine = opened(form, method=FEWER if form in GEMMA4 else LORA)
    state, shape = engine.load(base), engine.spec.shape
    if form in GEMMA4:
        keys = {name for name in state.trained if "k_proj.lora_A" in name}
        assert len(keys) == shape.layers - shape.shared_kv_layers
        assert {name.split(".")[-3] for name in state.trained} == set(FEWER.target_modules)
    before = {name: x.clone() for name, x in base_weights(state.model).items() if isinstance(x, torch.Tensor)}
    state, found = losses(engine, state, 4)
    assert found[-1] < found[0]  # of the same batch
    assert all(torch.equal(x, before[name]) for name, x in base_weights(state.model).items() if name in before)
    engine.export(state, out)
    tokens = np.random.default_rng(0).integers(0, 61, (1, 14)).astype(np.int32)
    ours = our_logits(engine, state, tokens)
    for model in (plain(out), with_adapter(base, out / "adapter")):
        assert np.abs(ours - their_logits(model, tokens)).max() < 2e-5 * np.abs(ours).max()


@pytest.mark.parametrize(("form", "count"), [("smollm3", 28), ("olmo3", 28), ("qwen3.5 4B", 26), *(
    pytest.param(form, 0, marks=pytest.mark.slow) for form in GEMMA4)])
def test_four_bits_hold_projections_alone(form: str, count: int) -> None:
    """Embeddings, their tables, routers and experts keep their format, and the loss falls."""
    wide = {"width": 64, "mlp_width": 64}
    if form in GEMMA4:
        wide |= {"head_dim": 16, "global_head_dim": 32} | ({"shared_mlp_width": 128} if form == GEMMA4[0] else {})
    engine = opened(form, shape=wide, method=QloraConfig(name="qlora", rank=2))
    state, found = losses(engine, engine.init(0), 4)
    assert found[-1] < found[0]
    four_bit = {name for name, place in base_weights(state.model).items() if isinstance(place, FourBitLinear)}
    assert not count or len(four_bit) == count  # six of each layer with a state; Qwen 3.5 has two here
    if form in GEMMA4:
        kept = tensor_shapes(engine.spec.shape).keys() - four_bit
        assert all(".self_attn." in name or ".mlp." in name for name in four_bit)
        assert not [name for name in kept if name.endswith("_proj.weight")
                    and (".self_attn." in name or ".mlp." in name)]


IN_BACKWARD = {"precision": BF16, "optimizer": AdafactorConfig(name="adafactor"),
               "memory": MemoryConfig(optimizer_in_backward=True, remat="layer", loss_chunk=8)}


@pytest.mark.parametrize(("form", "changes"), [
    ("gemma3", {}), ("gemma3", IN_BACKWARD),
    ("gemma3", {"precision": BF16, "optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0)}),
    ("gemma3", {"precision": PrecisionConfig(parameters="bf16", compute="fp32", rounding="master_fp32")}),
    pytest.param("qwen3.5 4B", IN_BACKWARD, marks=pytest.mark.slow),
    ("qwen3.5 4B", {"optimizer": AdamW8bitConfig(name="adamw8bit")}),
    ("qwen3.5 4B", {"method": STATE, "memory": MemoryConfig(remat="layer")}),
    ("gemma4 E2B", IN_BACKWARD), pytest.param("gemma4 26B-A4B", {"precision": BF16}, marks=pytest.mark.slow)])
def test_training_learns_and_a_resumed_run_is_the_same_run_bit_for_bit(form: str, changes: dict[str, Any],
                                                                       tmp_path: Path) -> None:
    engine = opened(form, **changes)
    state = engine.init(0)
    first = {name: x.clone() for name, x in base_weights(state.model).items() if isinstance(x, torch.Tensor)}
    state, before = losses(engine, state, 4)
    if "method" not in changes:  # without adapters all is trained but Gemma 4's tables and factors of layers
        assert state.trained.keys() == {name for name in first if not is_frozen(name, engine.spec.shape)}
        for name, x in base_weights(state.model).items():
            assert torch.equal(x, first[name]) == is_frozen(name, engine.spec.shape), name
    engine.save(state, tmp_path)
    state, expected = losses(engine, state, 2, first=4)
    assert before[-1] < before[0]
    again = opened(form, **changes)
    resumed, found = losses(again, again.restore(tmp_path), 2, first=4)
    assert found == expected
    assert same(state, resumed)
