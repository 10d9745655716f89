"""Checks of transformers classes that this project has not verified: does a class compute what this engine assumes?

- `refuse_unsuited`, on fake tensors, before memory is taken: names and sizes of tensors, whether keyword arguments
  reach the attention, and which window every layer asks for.
- `check_masks`, with weights, on one short row: whether a position sees a later one or another segment, and whether
  transformers' own attention, and generation with a cache, give the same numbers.

These checks are no proof.

Shape suffixes: B rows, S positions, D width, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from transformers import PreTrainedModel

from workings.engines.torch.attention import EVERYTHING, AttentionMask
from workings.engines.torch.linear_attention import empty_cache, has_linear_state
from workings.engines.torch.lora import base_weights, switched_off
from workings.engines.torch.model import build_model, caching, final_logits, hidden_states
from workings.engines.torch.sharding import FsdpRoot, ProcessMesh
from workings.engines.torch.spec import TorchSpec
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.weights import tensor_shapes


@contextmanager
def grouped_products(dtype: torch.dtype) -> Iterator[None]:
    """Inside, products of experts can be traced in any format. All rows go to one expert, which gives equal sizes."""
    real = torch.nn.functional.grouped_mm

    def first_expert(x_TI: Tensor, weight_EIO: Tensor, *, offs: Tensor) -> Tensor:
        return x_TI @ weight_EIO[0]

    if dtype != torch.bfloat16:  # which PyTorch traces itself
        torch.nn.functional.grouped_mm = first_expert  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.nn.functional.grouped_mm = real


POSITIONS = 12
"""Positions of each half of the computed row."""
PADDING = 3
"""Positions of padding after the prompt."""
NO_ATTENTION = ("linear_attention", "mamba", "conv", "moe", "mlp", "recurrent")
"""Kinds of layers without keys and values."""
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}
"""Largest difference that counts as rounding, as a share of the largest number."""
UNSUITED = (TypeError, KeyError, ValueError, AttributeError, NotImplementedError, IndexError,
            fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException,
            fake_tensor.UnsupportedOperatorException)
"""Errors of classes that do not accept another attention function, or whose operations depend on values."""


@dataclass(frozen=True)
class WindowMask(AttentionMask):
    """Records the window that each layer asks for, in the order of the layers."""

    windows: list[int] = field(default_factory=list)

    def mask(self, length: int, window: int, device: torch.device) -> Tensor | None:
        """The mask of `AttentionMask`."""
        self.windows.append(window)
        return super().mask(length, window, device)


def refuse_unsuited(spec: TorchSpec) -> None:
    """Check the class of an unverified model before memory is allocated; verified families are not checked.

    Raises:
        RequestError: its tensors have other names or sizes than those in the files, keyword arguments do not reach its
            attention, or a layer asks for another window than ``config.json`` says.
    """
    if spec.shape.verified:
        return
    one_process = replace(spec, mesh=ProcessMesh(), device=torch.device("cpu"))
    recorder = WindowMask()
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), grouped_products(spec.compute_dtype):
        try:
            model = build_model(one_process).model
            tokens = torch.zeros((1, POSITIONS), dtype=torch.int64)
            hidden_states(model, tokens, torch.arange(POSITIONS)[None], recorder)
        except UNSUITED as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            if "'visible'" in str(error):
                why = "its layers do not hand on the model's keyword arguments"
            raise _unsuited(spec.shape, why) from error
    _refuse_other_tensors(spec.shape, model)
    _refuse_other_windows(spec.shape, model, recorder.windows)


def _unsuited(shape: ModelShape, why: str) -> RequestError:
    return RequestError(f"a {shape.family} model does not work with model.verified: false: {why}",
                        "a class of transformers that hands its keyword arguments to an attention function of ours, "
                        "and whose steps do not depend on values", "another model.id")


def _refuse_other_tensors(shape: ModelShape, model: PreTrainedModel) -> None:
    """Compare names and sizes of the class's tensors with those in the files."""
    stored = tensor_shapes(shape)
    sizes = {name: tuple(x.shape) if isinstance(x, Tensor) else (x.out_features, x.in_features)
             for name, x in base_weights(model).items()}
    wrong = sorted(name for name in stored.keys() | sizes.keys() if stored.get(name) != sizes.get(name))
    if wrong:
        raise RequestError(f"{len(wrong)} tensors differ from those of transformers' class for {shape.family}: "
                           f"{wrong[0]} is {stored.get(wrong[0], 'absent')} in the files, and "
                           f"{sizes.get(wrong[0], 'absent')} in the class",
                           "files with the class's own names and sizes (those of some families, experts above all, "
                           "transformers renames or joins as it reads them; here they are read as they are)",
                           "another model.id")


def _refuse_other_windows(shape: ModelShape, model: PreTrainedModel, windows: list[int]) -> None:
    """Compare the windows that layers with attention asked for with those in ``config.json``."""
    config = model.config
    sliding = getattr(config, "sliding_window", None)
    if not sliding or not getattr(config, "use_sliding_window", True):
        sliding = EVERYTHING
    # Without kinds of layers all layers have the window, as in Mistral's first models.
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    known = {"sliding_attention": sliding, "full_attention": EVERYTHING, "attention": EVERYTHING, "hybrid": EVERYTHING}
    if unknown := {*kinds} - {*known, *NO_ATTENTION}:
        raise RequestError(f"a {config.model_type} model has layers of an unknown kind: {', '.join(sorted(unknown))}",
                           f"layers of the kinds {', '.join([*known, *NO_ATTENTION])}", "another model.id")
    expected = [known[kind] for kind in kinds if kind in known]
    if len(windows) != len(expected):
        raise _unsuited(shape, f"{len(windows)} of {len(expected)} layers ask our attention function")
    if windows != expected:
        raise _unsuited(shape, "its layers do not tell our attention function their sliding window")


FINDINGS = (
    ("earlier positions see later ones", "a causal model that keeps to the mask it is given", "another model.id"),
    ("logits with our attention function differ from those with transformers' own",
     "a class that does no more with scores or logits than it tells an attention function", "another model.id"),
    ("answers with a cache differ from those without one", "a class whose cache is transformers' DynamicCache",
     "another model.id"),
    ("a row of a packed sequence sees the row before it",
     "one row a sequence: some of its layers keep a state that no mask resets", "data.packing=none"))
"""For each result of `_differences`: what was found, what is expected, and what to try next."""


def check_masks(spec: TorchSpec, root: FsdpRoot) -> None:
    """Compute one short row in several ways. Raises `RequestError` if the engine would train another model."""
    with switched_off(root.model):
        differences: list[float] = root(partial(_differences, spec))
    findings = FINDINGS if spec.request.packed else FINDINGS[:-1]  # the last one is about packed rows
    for size, (what, expected, try_next) in zip(differences, findings, strict=False):
        if size > TOLERANCE[spec.compute_dtype]:
            raise RequestError(f"in a {spec.shape.family} model with model.verified: false {what} ({size:.2g} of the "
                               "largest number)", expected, try_next)


@torch.no_grad()
def _differences(spec: TorchSpec, model: PreTrainedModel) -> list[float]:
    """Differences as shares of the largest number, in the order of `FINDINGS`."""
    generator = torch.Generator().manual_seed(0)
    half, vocabulary = POSITIONS, spec.shape.vocab_size
    # Random tokens, because equal ones would hide an exchange of positions.
    row, other = (torch.randint(0, vocabulary, (1, 2 * half), generator=generator).to(spec.device) for _ in range(2))
    other_end = torch.cat([row[:, :half], other[:, half:]], 1)
    other_start = torch.cat([other[:, :half], row[:, half:]], 1)
    positions = torch.arange(2 * half, device=spec.device)[None]
    hidden = hidden_states(model, row, positions, AttentionMask())
    changed = hidden_states(model, other_end, positions, AttentionMask())
    # The second half as a segment of its own must not notice other tokens in the first.
    segments = AttentionMask(segment_ids=positions // half + 1)
    packed = hidden_states(model, row, positions % half, segments)
    repacked = hidden_states(model, other_start, positions % half, segments)
    # The row by transformers alone, without our mask and attention function.
    logits = final_logits(model, hidden, spec.shape.final_softcap)
    ours = model.config._attn_implementation
    model.config._attn_implementation = "eager"
    reference = model(input_ids=row, position_ids=positions, use_cache=False).logits.float()
    model.config._attn_implementation = ours
    return [_difference(changed[:, :half], hidden[:, :half]),
            _difference(logits, reference),
            _difference(_with_cache(spec, model, row, positions), hidden[:, half]),
            _difference(repacked[:, half:], packed[:, half:])]


def _difference(computed: Tensor, expected: Tensor) -> float:
    """The largest difference as a share of the largest number."""
    return float((computed.float() - expected.float()).abs().max() / expected.float().abs().max().clamp_min(1e-30))


def _with_cache(spec: TorchSpec, model: PreTrainedModel, tokens: Tensor, positions: Tensor) -> Tensor:
    """``[B, D]`` hidden state of the token after the first half, which is in a cache, with padding after it."""
    padded = POSITIONS if has_linear_state(model) else POSITIONS + PADDING  # a linear state cannot leave padding out
    cache, position = empty_cache(model), positions[:, POSITIONS:POSITIONS + 1]
    slots = torch.cat([positions[:, :padded], position], 1)
    seen = torch.cat([positions[:, :padded] < POSITIONS, torch.ones_like(position, dtype=torch.bool)], 1)
    visible = AttentionMask(distance=(position - slots)[:, None], seen=seen)
    with caching(model):
        hidden_states(model, tokens[:, :padded], positions[:, :padded], AttentionMask(), cache)
        return hidden_states(model, tokens[:, POSITIONS:POSITIONS + 1], position, visible, cache)[:, -1]
