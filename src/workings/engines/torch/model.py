"""Models by transformers' classes, built from a shape, without remote code and pickle.

A model of none of this package's families (`model.verified: false`) has transformers' own class unchanged.
`workings.engines.torch.mask_check` checks such classes.

Shape suffixes: B rows, S positions, D width, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from inspect import signature
from typing import Any

import accelerate
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from workings.engines.torch import attention
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.embedding import FixedTable, share_gradient
from workings.engines.torch.linear_attention import by_own_operations, compute_states
from workings.engines.torch.lora import add_adapters, base_weights, store_weight
from workings.engines.torch.matmul import mix_formats
from workings.engines.torch.rounding import tensor_generator
from workings.engines.torch.sharding import FsdpRoot, per_layer_table, split
from workings.engines.torch.spec import TorchSpec
from workings.engines.torch.triton.check import use_kernels
from workings.errors import RequestError
from workings.models.family import LAYER_SCALAR, PER_LAYER_EMBEDDING
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.weights import first_value, tensor_shapes

CONVERTED = 2**25
"""Elements of the head that are converted at a time if it is stored in another format."""
LOGIT_FACTOR = "workings_logit_factor"
"""Attribute of a model: hidden states are multiplied by it before they are multiplied with the head."""


def unverified_config(shape: ModelShape, values: Mapping[str, Any]) -> Any:
    """The configuration for transformers' class. Raises `RequestError` if it has none, or refuses these settings."""
    if shape.family not in CONFIG_MAPPING or shape.family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise RequestError(f"model_type: {shape.family} has no class for model.verified: false",
                           "a causal model whose class transformers itself has; code that comes with a model "
                           "(auto_map in its config.json) is never run", "another model.id, or a newer transformers")
    config_class = CONFIG_MAPPING[shape.family]
    try:
        # Files have infinities as objects.
        return config_class.from_dict(config_class._decode_special_floats(dict(values)))
    except (StrictDataclassError, TypeError, ValueError, KeyError, AttributeError) as error:
        what = " ".join(str(error).split())[:300]
        raise RequestError(f"transformers refuses config.json: {what}",
                           f"settings of a {shape.family} model", "download the directory again, whole") from None


def prepare_unverified(model: PreTrainedModel) -> None:
    """Adapt an unverified class to this engine. Raises `RequestError` for a head with a bias."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    config = model.config
    # Granite divides its logits and Cohere multiplies them, both in the model's forward, which is not called here.
    factor = 1.0 / getattr(config, "logits_scaling", 1.0) * (getattr(config, "logit_scale", None) or 1.0)
    setattr(model, LOGIT_FACTOR, float(factor))
    if getattr(model.get_output_embeddings(), "bias", None) is not None:
        raise RequestError(f"the head of a {config.model_type} model has a bias",
                           "a head without one: the loss is computed from hidden states and the head's matrix", "")


def rotate_olmo3_sliding_layers(model: PreTrainedModel) -> None:
    """Let sliding layers of an OLMo 3 rotate without YaRN, as the published models were trained; others do not change.

    transformers 4.57 and 5.23, vLLM and llama.cpp do the same. transformers 5.12 stretches the rotation of all layers.
    """
    config = model.config
    # Later releases of transformers have settings for each kind of layer, and no `rope_type` here.
    if config.model_type != "olmo3" or config.rope_parameters.get("rope_type", "default") == "default":
        return
    plain = deepcopy(config)
    plain.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
    base = model.base_model
    base.plain_rotary_emb = type(base.rotary_emb)(plain)

    def rotate(layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"position_embeddings": base.plain_rotary_emb(args[0], kwargs["position_ids"])}

    for layer, kind in zip(base.layers, config.layer_types, strict=True):
        if kind == "sliding_attention":
            layer.register_forward_pre_hook(rotate, with_kwargs=True)


def hf_config(shape: ModelShape, attention_name: str) -> Any:
    """Configuration of transformers' model, without dropout."""
    # A padding index would block the gradient of one row of the embedding.
    values = to_hf_config(shape) | {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    if shape.verified:
        config = AutoConfig.for_model(values.pop("model_type"), **values)
    else:
        config = unverified_config(shape, values)
    for name, value in config.to_dict().items():
        if "drop" in name and value and type(value) in (int, float):  # not bool
            setattr(config, name, 0.0)
    config._attn_implementation = attention_name
    return config


def empty_model(spec: TorchSpec) -> PreTrainedModel:
    """The model with its adapters: parameters on the device ``meta``, without memory, and real buffers."""
    attention.register()
    config = hf_config(spec.shape, attention.registered_name(spec.attention, spec.product_dtype))
    with no_init_weights(), accelerate.init_empty_weights(include_buffers=False), by_own_operations(config.model_type):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.tie_weights()  # `allocate` needs tied weights to be one object
    if not spec.shape.verified:
        prepare_unverified(model)
    rotate_olmo3_sliding_layers(model)
    compute_states(model)
    add_adapters(spec, model)
    if spec.request.memory.remat == "layer":
        # Newer releases of transformers have the first name, and warn about the second.
        enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
        enable({"use_reentrant": False, "preserve_rng_state": False})
    return model.train()  # checkpointing requires training mode; the model's own dropout is 0


def allocate(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Allocate every parameter with undefined contents: adapters in float32, all others in ``dtype``.

    On the device ``meta`` parameters only get their format. `build_model` allocates a `FixedTable`.
    """
    allocated: dict[int, nn.Parameter] = {}  # by identity, so that a tied matrix stays one parameter
    for prefix, module in model.named_modules():
        for name, old in module.named_parameters(recurse=False):
            if id(old) not in allocated:
                target = torch.device("meta") if isinstance(module, FixedTable) else device
                data = torch.empty(old.shape, dtype=torch.float32 if "lora_" in prefix else dtype, device=target)
                allocated[id(old)] = nn.Parameter(data, requires_grad=old.requires_grad)
            setattr(module, name, allocated[id(old)])
        for name, buffer in module.named_buffers(recurse=False):
            if name == LAYER_SCALAR:  # one of the model's weights
                buffer = buffer.to(dtype)
            if device.type != "meta":
                buffer = torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device)
            setattr(module, name, buffer)


def build_model(spec: TorchSpec) -> FsdpRoot:
    """The model on the device, or this process's part of a split one, with undefined parameters."""
    with unset_fake_temporarily():  # peft moves modules, which fake tensors do not allow
        model = empty_model(spec)
    is_split = spec.mesh.fsdp > 1
    # A table that is not split among processes must not be moved with the split parameters.
    table: Any = per_layer_table(model) if spec.table_on_host or is_split else None
    if table is not None:
        # Here and below classes are exchanged, not modules: names, weights and ties stay.
        table.__class__ = FixedTable
        table.compute = spec.compute_dtype
    # Split parameters stay on `meta` until FSDP has split them, so no process ever has the whole model.
    allocate(model, spec.parameter_dtype, torch.device("meta") if is_split else spec.device)
    if table is not None and spec.device.type != "meta":
        device = torch.device("cpu") if spec.table_on_host else spec.device
        table.weight = nn.Parameter(torch.empty_like(table.weight, device=device), requires_grad=False)
    # Only in verified classes is a norm known to compute what its name says.
    by_kernel = spec.card_kernels and spec.compute_dtype == torch.bfloat16 and spec.shape.verified
    if by_kernel:
        use_kernels(model, spec.shape)
    mix_formats(model, spec.compute_dtype, spec.product_dtype, unrounded=by_kernel)
    # An embedding of an unverified class may do more than look up rows.
    if spec.shape.verified or type(model.get_input_embeddings()) is nn.Embedding:
        share_gradient(model, spec.compute_dtype)
    root = split(model, spec.mesh, spec.device)
    if is_split:
        # `to_empty` would lose the contents of the buffers.
        root._apply(lambda x: torch.empty_like(x, device=spec.device) if x.is_meta else x.to(spec.device))
    return root


def random_value(spec: TorchSpec, seed: int, name: str, size: torch.Size) -> Tensor:
    """Float32 random weights of one tensor, drawn on the CPU, so that they do not depend on devices.

    As in `engines/jax/init.py` matrices are normal with variance 1 / fan-in, less for those that write into the
    residual stream. Vectors have `first_value`, or the distribution of their family.
    """
    family, generator = family_of(spec.shape), tensor_generator(seed, name)
    for end, transform in family.drawn_vectors.items():
        if name.endswith(end):
            return torch.tensor([*map(transform, torch.rand(size, generator=generator).tolist())])
    if len(size) == 1:
        return torch.full(size, first_value(name, size[0], spec.shape))
    fan_in = spec.shape.per_layer_width if name == PER_LAYER_EMBEDDING else size[-1]
    deviation = float(fan_in) ** -0.5
    if name.endswith(tuple(f"{matrix}.weight" for matrix in family.residual)):
        # Each layer adds to the residual stream twice: after attention and after the feed-forward.
        deviation *= (2 * spec.shape.layers) ** -0.5
    return torch.randn(size, generator=generator) * deviation


def fill_random(spec: TorchSpec, model: nn.Module, seed: int) -> None:
    """Set every tensor of the model except adapters to random weights."""
    sizes = tensor_shapes(spec.shape)
    for name, weight in base_weights(model).items():
        store_weight(weight, random_value(spec, seed, name, torch.Size(sizes[name])))


@contextmanager
def caching(model: PreTrainedModel) -> Iterator[None]:
    """Inside, the model is in evaluation mode: gradient checkpointing would drop a cache."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def hidden_states(model: PreTrainedModel, tokens: Tensor, positions: Tensor, visible: AttentionMask,
                  cache: Any = None) -> Tensor:
    """``[B, S, D]`` normed hidden states of tokens ``[B, S]`` at these ``positions`` ``[B, S]`` of their segments."""
    cache_argument = {} if cache is None else {_cache_argument(type(model.base_model).forward): cache}
    out = model.base_model(input_ids=tokens, position_ids=positions, visible=visible, use_cache=cache is not None,
                           **cache_argument)
    factor: float = getattr(model, LOGIT_FACTOR, 1.0)
    return out.last_hidden_state if factor == 1.0 else out.last_hidden_state * factor


@lru_cache
def _cache_argument(forward: Callable[..., Any]) -> str:
    """Name of a class's cache argument. transformers 5.24 renamed it, and warns about the former name."""
    return "cache" if "cache" in signature(forward).parameters else "past_key_values"


def unembedding(model: PreTrainedModel) -> nn.Parameter:
    """The ``[V, D]`` matrix that turns hidden states into logits."""
    return model.get_output_embeddings().weight


def final_logits(model: PreTrainedModel, hidden: Tensor, softcap: float) -> Tensor:
    """``[..., V]`` float32 logits of normed hidden states."""
    head = unembedding(model)
    if head.dtype == hidden.dtype:
        raw = (hidden @ head.T).float()
    else:
        # Converted in parts, because a float32 head of 256,000 tokens takes gigabytes.
        parts = head.split(max(1, CONVERTED // head.shape[1]))
        raw = torch.cat([hidden @ part.to(hidden.dtype).T for part in parts], -1).float()
    return softcap * torch.tanh(raw / softcap) if softcap else raw
