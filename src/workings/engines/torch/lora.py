"""LoRA by peft and QLoRA with bitsandbytes' NF4: trained and frozen tensors, and how both are stored.

Adapters are float32 in any format of the frozen weights. With QLoRA every projection of every layer is stored in
four bits, whether it has an adapter or not.

Projections are those of attention and feed-forward (`Family.projections`); a layer that attends to an earlier one's
keys has none for keys and values. All else stays as it is, without adapters and in its own format: embeddings, Gemma
4's table of per-layer embeddings and the small matrices that bring it into the layers, routers and experts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any

import torch
from peft import LoraConfig as PeftConfig
from peft import inject_adapter_in_model
from peft.tuners.lora import LoraLayer
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
from workings.models.weights import PEFT_PREFIX, find_projections, is_frozen, layer_shapes, projections


def refuse_unknown(spec: TorchSpec) -> None:
    """Raise `RequestError` for projections that the model does not have, and for incomplete 4-bit blocks."""
    method, shape = spec.request.method, spec.shape
    if isinstance(method, FullConfig):
        return
    find_projections(method.target_modules, shape)
    if method.name != "qlora":
        return
    # Layers differ in some families, and not every layer has every projection.
    for layer, name in product(range(shape.layers), projections(shape)):
        size = layer_shapes(shape, layer).get(f"{name}.weight", ())
        if size and prod(size) % BLOCK:
            raise RequestError(f"method.name: qlora cannot store {name} of layer {layer}: it is {size[0]} x {size[1]}",
                               f"matrices of whole blocks of {BLOCK} elements", "method.name=lora")


def add_adapters(spec: TorchSpec, model: PreTrainedModel) -> None:
    """Freeze what is not trained in a model without memory (device ``meta``), and add adapters to projections."""
    method = spec.request.method
    if isinstance(method, FullConfig):
        for name, param in model.named_parameters():
            param.requires_grad_(not is_frozen(name, spec.shape))
        return
    # `fill_adapters` initializes the adapters instead of peft, from the run's seed, once they have memory. Dropout is
    # `AdapterDropout`: peft's takes PyTorch's global generator, whose state no checkpoint has.
    inject_adapter_in_model(PeftConfig(
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
        # After the adapters were added: a projection with one is its wrapper's `base_layer`.
        quantized = {name.rpartition(".")[2] for name in projections(spec.shape)}
        for name, module in list(model.named_modules()):
            if type(module) is nn.Linear and name.removesuffix(".base_layer").rpartition(".")[2] in quantized:
                to_four_bits(module, spec.parameter_dtype)


def lora_layers(model: nn.Module) -> dict[str, Any]:
    """All layers with an adapter by their names, which are those of the projections that they wrap."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


class AdapterDropout(nn.Module):
    """Dropout of an adapter's input, as in peft: a random part is 0, the rest divided by the share that is kept.

    It drops within `dropping_inputs` only. The mask depends on the projection's name and on that context's words, so
    that the second forward of checkpointing, a resumed run and a repeated step drop the same inputs.
    """

    def __init__(self, name: str, rate: float) -> None:
        super().__init__()
        self.name, self.rate = name, rate
        self.place: tuple[int, str] | None = None
        """Seed and the words; None outside of a training step."""

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with a part of its numbers dropped."""
        if self.place is None:
            return x
        seed, words = self.place
        generator = tensor_generator(seed, f"dropout of {self.name} at {words}", x.device)
        keep = torch.empty(x.shape, dtype=torch.bool, device=x.device).bernoulli_(1 - self.rate, generator=generator)
        return torch.where(keep, x / (1 - self.rate), 0)


@contextmanager
def dropping_inputs(model: nn.Module, seed: int, words: str) -> Iterator[None]:
    """Within the context adapters drop inputs, as follows from the seed and words such as step and micro batch."""
    modules = [module for module in model.modules() if isinstance(module, AdapterDropout)]
    for module in modules:
        module.place = seed, words
    try:
        yield
    finally:
        for module in modules:
            module.place = None


@contextmanager
def switched_off(model: nn.Module) -> Iterator[None]:
    """Within the context the model computes without its adapters."""
    layers = lora_layers(model).values()
    for layer in layers:
        # Not peft's `enable_adapters`, which also changes what requires a gradient.
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Trained parameters by their names in a checkpoint: Hugging Face's, or peft's for adapters."""
    # In the model peft's names contain the name of the adapter (`default`), in its files they do not.
    return {f"{PEFT_PREFIX}{name.replace('.default.', '.')}" if "lora_" in name else name: param
            for name, param in model.named_parameters() if param.requires_grad}


def base_weights(model: nn.Module) -> dict[str, "Tensor | FourBitLinear"]:
    """The model's tensors without adapters by Hugging Face's names: a parameter, or the module of a quantized one.

    Gemma 4's layer scalars are buffers of transformers, and are included because the model's files have them.
    """
    tensors: dict[str, Tensor | FourBitLinear] = {
        name.replace(".base_layer", ""): param for name, param in model.named_parameters() if "lora_" not in name}
    for name, module in model.named_modules():
        if isinstance(module, FourBitLinear):
            tensors[f"{name.replace('.base_layer', '')}.weight"] = module
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
    """Initial values as in peft: A uniform within ``in ** -0.5``, B zero, so that the model's outputs do not change.

    The random numbers depend on the run's seed and the tensor's name.
    """
    for name, param in trainable_parameters(model).items():
        if "lora_A" in name:
            # The whole tensor, on the CPU, in every process: the numbers depend on neither the device nor the split.
            uniform = torch.rand(param.shape, generator=tensor_generator(seed, name))
            local(param).copy_(own_part((2 * uniform - 1) * param.shape[1] ** -0.5, param))
        elif "lora_B" in name:
            local(param).zero_()


@torch.no_grad()
def merged(spec: TorchSpec, stored: "Tensor | FourBitLinear", layer: Any) -> Tensor:
    """One whole weight with the adapter of ``layer`` or None, added in float32; a collective call of all processes."""
    weight = stored.full(spec.parameter_dtype) if isinstance(stored, FourBitLinear) else gathered(stored)
    if layer is None:
        return weight
    delta = gathered(layer.lora_B["default"].weight) @ gathered(layer.lora_A["default"].weight) \
        * layer.scaling["default"]
    # Some unverified classes store their matrices [in, out].
    delta = delta.T if isinstance(layer.get_base_layer(), Conv1D) else delta
    return (weight.float() + delta).to(weight.dtype)
