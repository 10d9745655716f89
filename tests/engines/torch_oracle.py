"""The PyTorch engine and what it is compared with: logits, losses and gradients of both sides."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.engines.tiny import our_logits, request, tiny_shape
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.lora import base_weights
from workings.engines.torch.step import State, micro_batch_objective, to_rows
from workings.models.batch import Batch
from workings.models.family import LAYER_SCALAR

LARGE = {"shared_kv_layers": 0, "shared_mlp_width": 0, "per_layer_width": 0, "keys_as_values": True,
         "global_kv_heads": 1}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("gemma", {}), "gemma2": ("gemma2", {}), "gemma3": ("gemma3", {}),
    "gemma3 4B": ("gemma3", {"rope_scaling": 8.0, "layers": 6, "sliding_pattern": 3}),
    "llama": ("llama", {}), "llama 3.1": ("llama", {"rope_llama3": (32.0, 1.0, 4.0, 16)}),
    "qwen2": ("qwen2", {}), "qwen2 7B": ("qwen2", {"tied_embeddings": False}), "qwen3": ("qwen3", {}),
    "smollm3": ("smollm3", {"layers": 4}), "olmo3": ("olmo3", {"layers": 4}),
    "olmo3 stretched": ("olmo3", {"layers": 4, "rope_yarn": (8.0, 16, 32.0, 1.0, 1.2079441541679836)}),
    "gemma4 E2B": ("gemma4", {}), "gemma4 31B": ("gemma4", LARGE),
    "gemma4 26B-A4B": ("gemma4", LARGE | {"experts": 4, "experts_per_token": 2, "expert_width": 16}),
    "qwen3.5 2B": ("qwen3_5", {"linear_key_heads": 4}), "qwen3.5 4B": ("qwen3_5", {}),
    "qwen3.5 9B": ("qwen3_5", {"tied_embeddings": False}),
    "qwen3.5 state last": ("qwen3_5", {"linear_pattern": 0, "layers": 5,
                                       "layer_types": ("global", "linear", "linear", "global", "linear")})}
"""Family and changes of a tiny shape that make it the form of a published model; the last one is of models that were
cut. A stretched OLMo has its published numbers but for the original context, which is 8192 there."""


def roughened(engine: TorchEngine, seed: int = 3) -> State:
    """Random norms, biases, layer scalars and larger matrices: initial values would hide several features."""
    state = engine.init(seed)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, x in base_weights(state.model).items():
            assert isinstance(x, torch.Tensor)
            if name.endswith(LAYER_SCALAR):
                x.copy_(0.5 + torch.rand(x.shape, generator=draw))
            elif ".layers." in name and name in state.trained:
                x += 0.3 * torch.randn(x.shape, generator=draw)
    return state


def opened(form: str, *, shape: dict[str, Any] | None = None, **changes: Any) -> TorchEngine:
    """An engine of a tiny model of a form."""
    family, its = FORMS[form]
    return TorchEngine.open(request(tiny_shape(family, **its | (shape or {})), **changes))


def their_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    """Logits of a model of transformers, in rows without padding."""
    with torch.no_grad():
        found: np.ndarray = model(torch.from_numpy(tokens).long()).logits.numpy()
    return found


def same(a: State, b: State) -> bool:
    """Whether two states are equal bit for bit."""
    pairs = [(x, b.trained[name]) for name, x in a.trained.items()]
    pairs += [(x, b.moments[slot][name]) for slot, tree in a.moments.items() for name, x in tree.items()]
    return a.step == b.step and all(torch.equal(x.detach().view(torch.uint8), y.detach().view(torch.uint8))
                                    for x, y in pairs)


def with_adapter(base: Path, adapter: Path, *, trainable: bool = False) -> Any:
    """The exported model with an adapter on it, as peft opens it."""
    import peft  # slow, and few tests have adapters

    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    return peft.PeftModel.from_pretrained(model, adapter, is_trainable=trainable).eval()


def plain(folder: Path) -> Any:
    """The exported model as transformers opens it (float32, plain attention)."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    # transformers takes token 0 for padding, whose row would get no gradient; here it is a token like any other.
    model.get_input_embeddings().padding_idx = None
    return model.eval()


def assert_equal_to_transformers(engine: Any, state: Any, folder: Path) -> None:
    """Export a state of either engine: transformers' own class has its logits and its greedy text.

    Prompts of different lengths are in one padded batch, and transformers gets them one by one. Longer than the window.
    """
    engine.export(state, folder)
    model, draw = plain(folder), np.random.default_rng(5)
    # At single positions of longer rows roundings of this Gemma 4 grow to 6e-5.
    length = 14 if engine.spec.shape.family == "gemma4" else 40
    tokens = np.random.default_rng(0).integers(0, 61, (2, length)).astype(np.int32)
    ours, theirs = our_logits(engine, state, tokens), their_logits(model, tokens)
    assert np.abs(theirs).max() > 0.5
    assert np.abs(ours - theirs).max() < 2e-5 * max(1.0, np.abs(theirs).max())
    prompts = [draw.integers(0, 61, n).tolist() for n in (3, 9, 1, 17, 6)]
    for prompt, answer in zip(prompts, engine.generate(state, prompts, max_new_tokens=12, stop_ids=[]), strict=True):
        with torch.no_grad():
            whole = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                                   max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert (answer.tokens, answer.finish_reason) == (whole[0, len(prompt):].tolist(), "length")


def gradients(engine: TorchEngine, state: State, batch: Batch) -> dict[str, torch.Tensor]:
    """Loss and gradients of the first micro batch, by name."""
    [rows] = to_rows(engine.spec, batch)
    loss, *_ = micro_batch_objective(engine.spec, state.model, rows, batch.divisor)
    loss.backward()
    found = {"loss": loss.detach()} | {name: x.grad for name, x in state.trained.items() if x.grad is not None}
    for x in state.trained.values():
        x.grad = None
    return found


def their_loss(model: Any, batch: Batch) -> torch.Tensor:
    """The mean loss of a batch, as one large micro batch, as plain PyTorch computes it."""
    tokens, targets, counted, real = (torch.from_numpy(x.reshape(-1, x.shape[-1]).copy()) for x in (
        batch.tokens, batch.targets, batch.loss_mask, batch.segment_ids))
    logits = model(tokens.long(), attention_mask=real.long(), use_cache=False).logits
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), reduction="none")
    return (each * counted.flatten()).sum() / counted.sum()
