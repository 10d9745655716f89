"""LoRA by peft, and QLoRA with bitsandbytes' NF4.

Adapters are float32. They belong to projections of attention and feed-forward (`Family.projections`). With QLoRA every
projection of every layer is stored in four bits, whether it has an adapter or not. All other weights, such as
embeddings, routers and experts, stay in their own format without adapters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from workings.config.method import FullConfig
from workings.engines.torch.four_bit import BLOCK, FourBitLinear, to_four_bits
from workings.engines.torch.rounding import tensor_generator
from workings.engines.torch.sharding import gathered, local, own_part
from workings.engines.torch.spec import TorchSpec
from workings.errors import RequestError
from workings.models.family import LAYER_SCALAR
from workings.models.registry import family_of
from workings.models.weights import PEFT_PREFIX, find_projections, is_frozen, layer_shapes


def refuse_unknown(spec: TorchSpec) -> None:
    """Raise `RequestError` for projections that the model does not have, and for incomplete 4-bit blocks."""
    method, shape = spec.request.method, spec.shape
    if isinstance(method, FullConfig):
        return
    find_projections(method.target_modules, shape)
    if method.name != "qlora":
        return
    for layer, name in product(range(shape.layers), family_of(shape).projections):
        size = layer_shapes(shape, layer).get(f"{name}.weight")
        if size is not None and prod(size) % BLOCK:
            raise RequestError(f"method.name: qlora cannot store {name} of layer {layer}: it is {size[0]} x {size[1]}",
                               f"matrices of whole blocks of {BLOCK} elements", "method.name=lora")


def add_adapters(spec: TorchSpec, model: PreTrainedModel) -> None:
    """Freeze what is not trained in a model without memory (device ``meta``), and add adapters to projections."""
    method = spec.request.method
    if isinstance(method, FullConfig):
        for name, param in model.named_parameters():
            param.requires_grad_(not is_frozen(name, spec.shape))
        return
    from peft import LoraConfig, inject_adapter_in_model  # takes seconds, and training all weights does not need it

    # `fill_adapters` initializes the adapters, and `AdapterDropout` drops inputs: both from the run's seed.
    inject_adapter_in_model(LoraConfig(
        r=method.rank, lora_alpha=method.alpha, use_rslora=method.rank_stabilized,
        target_modules=list(method.target_modules), lora_dropout=0.0, bias="none", task_type="CAUSAL_LM",
        init_lora_weights=False), model)
    for name, layer in lora_layers(model).items():
        layer.cast_input_dtype_enabled = False  # the adapter's matrices are cast, not its input
        if method.dropout:
            layer.lora_dropout["default"] = AdapterDropout(name, method.dropout)
    for name, param in model.named_parameters():
        param.requires_grad_("lora_" in name)
    if method.name == "qlora":
        quantized = {name.rpartition(".")[2] for name in family_of(spec.shape).projections}
        for name, module in list(model.named_modules()):
            if type(module) is nn.Linear and _without_wrapper(name).rpartition(".")[2] in quantized:
                to_four_bits(module, spec.parameter_dtype)


def _without_wrapper(name: str) -> str:
    """``layers.0.q_proj.weight`` for ``layers.0.q_proj.base_layer.weight``, the same projection in peft's wrapper."""
    return name.replace(".base_layer", "")


def lora_layers(model: nn.Module) -> dict[str, Any]:
    """Name of each projection with an adapter -> peft's layer."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


class AdapterDropout(nn.Module):
    """Dropout of an adapter's input, as in peft; active within `dropping_inputs` only.

    The mask follows from the projection's name and that context's arguments. So the second forward of checkpointing, a
    resumed run and a repeated step drop the same inputs.
    """

    def __init__(self, name: str, rate: float) -> None:
        super().__init__()
        self.name, self.rate = name, rate
        self.seed_and_place: tuple[int, str] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with a random part of its numbers zero, and the rest divided by the share that is kept."""
        if self.seed_and_place is None:
            return x
        seed, place = self.seed_and_place
        generator = tensor_generator(seed, f"dropout of {self.name} at {place}", x.device)
        keep = torch.empty(x.shape, dtype=torch.bool, device=x.device).bernoulli_(1 - self.rate, generator=generator)
        return torch.where(keep, x / (1 - self.rate), 0)


@contextmanager
def dropping_inputs(model: nn.Module, seed: int, place: str) -> Iterator[None]:
    """Inside, adapters drop inputs; ``place`` names the step and micro batch."""
    modules = [module for module in model.modules() if isinstance(module, AdapterDropout)]
    for module in modules:
        module.seed_and_place = seed, place
    try:
        yield
    finally:
        for module in modules:
            module.seed_and_place = None


@contextmanager
def switched_off(model: nn.Module) -> Iterator[None]:
    """Inside, the model computes without its adapters."""
    layers = lora_layers(model).values()
    for layer in layers:
        # peft's `enable_adapters` would also change which tensors require a gradient.
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Trained parameters by their names in a checkpoint: Hugging Face's, or peft's for adapters."""
    # peft's names contain the adapter's name (`default`) in a model, but not in its files.
    return {f"{PEFT_PREFIX}{name.replace('.default.', '.')}" if "lora_" in name else name: param
            for name, param in model.named_parameters() if param.requires_grad}


def base_weights(model: nn.Module) -> dict[str, "Tensor | FourBitLinear"]:
    """The model's tensors without adapters by Hugging Face's names; for a quantized one, its module.

    Gemma 4's layer scalars are included: buffers in transformers, but tensors in the model's files.
    """
    tensors: dict[str, Tensor | FourBitLinear] = {
        _without_wrapper(name): param for name, param in model.named_parameters() if "lora_" not in name}
    for name, module in model.named_modules():
        if isinstance(module, FourBitLinear):
            tensors[f"{_without_wrapper(name)}.weight"] = module
    return tensors | {name: x for name, x in model.named_buffers() if name.rpartition(".")[2] == LAYER_SCALAR}


@torch.no_grad()
def store_weight(target: "Tensor | FourBitLinear", value: Tensor) -> None:
    """Store a value in an entry of `base_weights`; a `FourBitLinear` quantizes it."""
    if isinstance(target, FourBitLinear):
        target.store(value)
    else:
        local(target).copy_(own_part(value, target))


@torch.no_grad()
def fill_adapters(model: nn.Module, seed: int) -> None:
    """Initial values as in peft: A is uniform in ± ``in ** -0.5``, and B is zero, so that outputs do not change."""
    for name, param in trainable_parameters(model).items():
        if "lora_A" in name:
            # Every process draws the whole tensor on the CPU, so neither device nor split changes the numbers.
            uniform = torch.rand(param.shape, generator=tensor_generator(seed, name))
            local(param).copy_(own_part((2 * uniform - 1) * param.shape[1] ** -0.5, param))
        elif "lora_B" in name:
            local(param).zero_()


@torch.no_grad()
def merged(spec: TorchSpec, stored: "Tensor | FourBitLinear", layer: Any) -> Tensor:
    """One whole weight, with the adapter of peft's ``layer`` or None, added in float32. Every process must call it."""
    weight = stored.full(spec.parameter_dtype) if isinstance(stored, FourBitLinear) else gathered(stored)
    if layer is None:
        return weight
    a_RI, b_OR = gathered(layer.lora_A["default"].weight), gathered(layer.lora_B["default"].weight)
    delta = b_OR @ a_RI * layer.scaling["default"]
    if isinstance(layer.get_base_layer(), Conv1D):  # stored [in, out] in some unverified classes
        delta = delta.T
    return (weight.float() + delta).to(weight.dtype)
