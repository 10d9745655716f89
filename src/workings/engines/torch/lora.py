"""LoRA by peft and QLoRA with bitsandbytes' NF4: what is trained then, what is frozen, and how both are stored.

Adapters are float32 whatever the frozen weights are stored in. With QLoRA every projection of every layer is stored in
four bits, blocks of 64 with a float32 scale and no second quantization, whether it has an adapter or not; a teacher's
may be stored in eight.

Projections are those of attention and feed-forward (`Family.projections`); a layer that attends to an earlier one's
keys has none for keys and values. All else stays as it is, without adapters and in its own format: embeddings, Gemma
4's table of per-layer embeddings and the small matrices that bring it into the layers, routers and experts.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftConfig
from peft import inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from workings.config.method import FullConfig
from workings.engines.torch.four_bit import BLOCK, to_four_bits
from workings.engines.torch.frozen_linear import FrozenLinear, to_eight_bits
from workings.engines.torch.rounding import tensor_generator
from workings.engines.torch.sharding import FsdpRoot, gathered, local, own_part
from workings.engines.torch.spec import TorchSpec
from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.weights import LAYER_SCALAR, is_frozen, layer_shapes, projections, tensor_shapes

PREFIX = "base_model.model."
"""What peft writes before the names of transformers."""
ADAPTER_FOLDER, ADAPTER_CONFIG = "adapter", "adapter_config.json"


@dataclass(frozen=True)
class LazyTensor:
    """A tensor that is made when it is written."""

    shape: torch.Size
    dtype: torch.dtype
    make: Callable[[], Tensor]


def refuse_unknown(spec: TorchSpec) -> None:
    """Raises `RequestError` for projections that the model does not have, and for blocks that do not come out even."""
    method, shape = spec.method, spec.shape
    if isinstance(method, FullConfig):
        return
    there = {name.rpartition(".")[2] for name in projections(shape)}
    if unknown := [name for name in method.target_modules if name not in there]:
        raise RequestError(f"method.target_modules: {', '.join(unknown)}", f"projections of {shape.family}",
                           f"method.target_modules=[{', '.join(sorted(there))}]")
    if method.name == "qlora":
        _refuse_fewer_bits(spec)


def _refuse_fewer_bits(spec: TorchSpec) -> None:
    shape, int8 = spec.shape, spec.frozen_bits == "int8"
    if family_of(shape).matrices_in_out:
        raise RequestError(f"{'teacher in int8' if int8 else 'method.name: qlora'} with a {shape.family} model",
                           "a model whose matrices are stored [out, in]", "method.name=lora")
    if int8:  # a scale a row: no block has to come out even
        return
    # Layers differ in some families, and not every layer has every projection.
    for layer, name in product(range(shape.layers), projections(shape)):
        size = layer_shapes(shape, layer).get(f"{name}.weight", ())
        if size and prod(size) % BLOCK:
            raise RequestError(f"method.name: qlora: {name} of layer {layer} is {size[0]} x {size[1]}",
                               f"matrices of whole blocks of {BLOCK} elements", "method.name=lora")


def peft_config(spec: TorchSpec) -> PeftConfig:
    """The adapters in peft's words."""
    method = spec.method
    assert not isinstance(method, FullConfig)
    # Peft draws nothing: `fill_adapters` does, from the run's seed, once the tensors have memory.
    return PeftConfig(r=method.rank, lora_alpha=method.alpha, target_modules=list(method.target_modules),
                      lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", init_lora_weights=False,
                      fan_in_fan_out=family_of(spec.shape).matrices_in_out)


def add_adapters(spec: TorchSpec, model: PreTrainedModel) -> None:
    """Freeze what is not trained of a model without memory (device ``meta``), and put adapters beside projections."""
    if isinstance(spec.method, FullConfig):
        for name, param in model.named_parameters():
            param.requires_grad_(not is_frozen(name, spec.shape))
        return
    inject_adapter_in_model(peft_config(spec), model)
    for layer in lora_layers(model):
        layer.cast_input_dtype_enabled = False  # the adapter's own matrices are cast, not what goes in
    for name, param in model.named_parameters():
        param.requires_grad_("lora_" in name)
    if spec.method.name == "qlora":
        # After the adapters: a projection that has one is found again as its wrapper's `base_layer`.
        wanted = {name.rpartition(".")[2] for name in projections(spec.shape)}
        for name, module in list(model.named_modules()):
            if type(module) is nn.Linear and name.removesuffix(".base_layer").rpartition(".")[2] in wanted:
                if spec.frozen_bits == "int8":
                    to_eight_bits(module, spec.parameter_dtype)
                else:
                    to_four_bits(module, spec.parameter_dtype)


def lora_layers(model: nn.Module) -> Iterator[Any]:
    """Layers with an adapter."""
    return (module for module in model.modules() if isinstance(module, LoraLayer))


@contextmanager
def switched_off(model: nn.Module) -> Iterator[None]:
    """Inside, the model computes as if it had no adapters."""
    layers = [*lora_layers(model)]
    for layer in layers:
        # Not peft's `enable_adapters`, which also changes what requires a gradient.
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


class RootWithoutAdapters(FsdpRoot):
    """A model that has adapters, as it computes without them; tensors are those of the model itself."""

    def __init__(self, root: FsdpRoot) -> None:
        super().__init__(root.model)
        self.root = root

    def forward(self, work: Callable[[PreTrainedModel], Any]) -> Any:
        """``work(model)``."""
        with switched_off(self.model):
            # Through the whole root, which gathers what is split among processes.
            return self.root(work)


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """What is trained, by its name in a checkpoint: Hugging Face's, or peft's for adapters."""
    # Peft names a tensor after its adapter (`default`) in the model, but not in its files.
    return {f"{PREFIX}{name.replace('.default.', '.')}" if "lora_" in name else name: param
            for name, param in model.named_parameters() if param.requires_grad}


def base_weights(model: nn.Module) -> dict[str, "Tensor | FrozenLinear"]:
    """The model's own tensors by Hugging Face's names: parameters, or the module that holds one in fewer bits.

    A layer's fixed number (Gemma 4) is a buffer of transformers and stands in the model's files, so it is one of them.
    """
    places: dict[str, Tensor | FrozenLinear] = {
        name.replace(".base_layer", ""): param for name, param in model.named_parameters() if "lora_" not in name}
    for name, module in model.named_modules():
        if isinstance(module, FrozenLinear):
            places[f"{name.replace('.base_layer', '')}.weight"] = module
    return places | {name: x for name, x in model.named_buffers() if name.rpartition(".")[2] == LAYER_SCALAR}


@torch.no_grad()
def store_weight(place: "Tensor | FrozenLinear", value: Tensor) -> None:
    """Store a weight where `weights` says; in fewer bits if that is how it is held."""
    if isinstance(place, FrozenLinear):
        place.store(value)
    else:
        local(place).copy_(own_part(value, place))


@torch.no_grad()
def fill_adapters(model: nn.Module, seed: int) -> None:
    """First values, as peft's: A uniform within ``in ** -0.5``, B zero, so that the model is what it was.

    The numbers come from the run's seed and the tensor's name.
    """
    for name, param in trainable_parameters(model).items():
        if "lora_A" in name:
            # Drawn whole, on the CPU, in every process: neither device nor split changes the numbers.
            draw = torch.rand(param.shape, generator=tensor_generator(seed, name))
            local(param).copy_(own_part((2 * draw - 1) * param.shape[1] ** -0.5, param))
        elif "lora_B" in name:
            local(param).zero_()


def merged(spec: TorchSpec, model: nn.Module) -> dict[str, LazyTensor]:
    """Full weights by Hugging Face's names, each made when its turn comes: adapters added in float32, rounded once."""
    layers = {f"{name}.weight": module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    sizes = tensor_shapes(spec.shape)
    return {name: LazyTensor(torch.Size(sizes[name]), spec.parameter_dtype,
                             partial(_full, spec, place, layers.get(name)))
            for name, place in base_weights(model).items()}


@torch.no_grad()
def _full(spec: TorchSpec, place: "Tensor | FrozenLinear", layer: Any) -> Tensor:
    """One weight with its adapter, whole; every process must ask."""
    weight = place.full(spec.parameter_dtype) if isinstance(place, FrozenLinear) else gathered(place)
    if layer is None:
        return weight
    # Float32 temporaries of the weight's size, gone before the next weight is made.
    delta = gathered(layer.lora_B["default"].weight) @ gathered(layer.lora_A["default"].weight) \
        * layer.scaling["default"]
    # GPT-2 stores its matrices [in, out].
    turned = delta.T if isinstance(layer.get_base_layer(), Conv1D) else delta
    return (weight.float() + turned).to(weight.dtype)


def write_config(spec: TorchSpec, directory: Path) -> None:
    """``adapter_config.json``, as `peft.PeftModel.from_pretrained` reads it."""
    # JSON has no sets, and sorted names make the same file each time.
    values = {key: sorted(value) if isinstance(value, set) else value
              for key, value in peft_config(spec).to_dict().items() if value is not None}
    text = json.dumps(values | {"inference_mode": True, "init_lora_weights": True}, indent=2, sort_keys=True)
    (directory / ADAPTER_CONFIG).write_text(text + "\n", encoding="utf-8")
