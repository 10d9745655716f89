"""Models by transformers, built from a shape: without remote code and pickle; weights are initialized or read by name.

Shape suffixes: B rows, S positions, D width, V vocabulary.
"""

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any

import accelerate
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from workings.engines.torch import attention
from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.embedding import FixedTable, keep_in_place, share_gradient
from workings.engines.torch.linear_attention import by_own_operations, compute_states
from workings.engines.torch.lora import add_adapters, base_weights, store_weight
from workings.engines.torch.matmul import mix_formats
from workings.engines.torch.rotation import keep_plain_where_layers_slide
from workings.engines.torch.rounding import tensor_generator
from workings.engines.torch.sharding import FsdpRoot, per_layer_table, split
from workings.engines.torch.spec import TorchSpec
from workings.engines.torch.triton.layers import use_kernels
from workings.engines.torch.unverified import LOGIT_FACTOR, prepare_model, unverified_config
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.weights import LAYER_SCALAR, PER_LAYER_EMBEDDING, first_value, tensor_shapes


def hf_config(shape: ModelShape, attention_name: str) -> Any:
    """Configuration of transformers' model, without dropout."""
    # A padding index would block the gradient of one row of the embedding, whose token may be a real one.
    values = to_hf_config(shape) | {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    config = (AutoConfig.for_model(values.pop("model_type"), **values) if shape.verified
              else unverified_config(shape, values))
    # A step has to be the same when it is replayed; only adapters may have dropout.
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, int | float) and not isinstance(value, bool) and value:
            setattr(config, name, 0.0)
    config._attn_implementation = attention_name
    return config


def empty_model(spec: TorchSpec) -> PreTrainedModel:
    """The model with its adapters; parameters are on the device ``meta``, without memory, and buffers are real."""
    attention.register()
    # Buffers such as rotary tables are computed at construction; no file has them.
    config = hf_config(spec.shape, attention.registered_name(spec.attention, spec.product_dtype))
    with no_init_weights(), accelerate.init_empty_weights(include_buffers=False), by_own_operations(config.model_type):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # `allocate` gives each object memory once, so tied weights must be one object before.
    model.tie_weights()
    if not spec.shape.verified:
        prepare_model(model)
    keep_plain_where_layers_slide(model)
    compute_states(model)
    add_adapters(spec, model)
    # Dropout of adapters has its own generators, so no generator's state is saved for the second forward.
    if spec.checkpointing:
        # The name in newer releases of transformers, which warn about the older name.
        enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
        enable({"use_reentrant": False, "preserve_rng_state": False})
    return model.train()  # checkpointing requires training mode; the model's own dropout is 0


def allocate(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Allocate every parameter with undefined contents: adapters in float32, all others in ``dtype``.

    On the device ``meta`` parameters get their format only, and buffers stay where they are. A `FixedTable` is
    allocated in `build_model`.
    """
    allocated: dict[int, nn.Parameter] = {}
    for prefix, module in model.named_modules():
        for name, old in module.named_parameters(recurse=False):
            # By identity: a tied matrix is allocated once and stays one parameter.
            if id(old) not in allocated:
                target = torch.device("meta") if isinstance(module, FixedTable) else device
                data = torch.empty(old.shape, dtype=torch.float32 if "lora_" in prefix else dtype, device=target)
                allocated[id(old)] = nn.Parameter(data, requires_grad=old.requires_grad)
            setattr(module, name, allocated[id(old)])
        for name, buffer in module.named_buffers(recurse=False):
            if name == LAYER_SCALAR:  # one of the model's weights, so it has their format
                buffer = buffer.to(dtype)
                setattr(module, name, buffer)
            if device.type != "meta":
                setattr(module, name, torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device))


def build_model(spec: TorchSpec) -> FsdpRoot:
    """The model on the device, with undefined parameters; of a split copy, this process's part."""
    with unset_fake_temporarily():  # peft moves modules, which fake tensors do not allow; meta tensors have no memory
        model, several = empty_model(spec), spec.mesh.fsdp > 1
    # A table that is not split among processes must not be moved with the split parameters.
    table = per_layer_table(model) if spec.table_on_host or several else None
    if table is not None:
        keep_in_place(table, spec.compute_dtype)
    # Split parameters stay on `meta` until FSDP has split them: none ever has the whole model.
    allocate(model, spec.parameter_dtype, torch.device("meta") if several else spec.device)
    if table is not None and spec.device.type != "meta":
        device = torch.device("cpu") if spec.table_on_host else spec.device
        table.weight = nn.Parameter(torch.empty_like(table.weight, device=device), requires_grad=False)
    # A module of an unverified class may compute something else than its name says.
    by_kernel = spec.card_kernels and spec.compute_dtype == torch.bfloat16 and spec.shape.verified
    if by_kernel:
        use_kernels(model)
    # After `allocate`, because formats are read from the weights. A tied embedding's class is replaced again below.
    mix_formats(model, spec.compute_dtype, spec.product_dtype, unrounded=by_kernel)
    # An unverified class may have an embedding that does more than look up rows, which must not be replaced.
    if spec.shape.verified or type(model.get_input_embeddings()) is nn.Embedding:
        share_gradient(model, spec.compute_dtype)
    root = split(model, spec.mesh, spec.device)
    if several:
        # `to_empty` would lose the contents of the buffers.
        root._apply(lambda x: torch.empty_like(x, device=spec.device) if x.is_meta else x.to(spec.device))
    return root


def random_value(spec: TorchSpec, seed: int, name: str, size: torch.Size) -> Tensor:
    """Float32 random weights of one tensor, on the CPU: the same numbers on every device and any number of devices.

    The distribution is that of `engines/jax/init.py`: normal with variance 1 / fan-in, smaller for matrices that write
    into the residual stream. Vectors have `first_value`, or the distribution of their family.
    """
    family = family_of(spec.shape)
    if transform := next((rule for end, rule in family.drawn_vectors.items() if name.endswith(end)), None):
        return torch.tensor([*map(transform, torch.rand(size, generator=tensor_generator(seed, name)).tolist())])
    if len(size) == 1:
        # Vectors are norms and biases, which begin with fixed values.
        return torch.full(size, first_value(name, size[0], spec.shape))
    # A row of the per-layer embeddings has one for each layer.
    fan_in = spec.shape.per_layer_width if name == PER_LAYER_EMBEDDING else size[-1]
    deviation = float(fan_in) ** -0.5
    if name.endswith(tuple(f"{matrix}.weight" for matrix in family.residual)):
        # Each layer adds to the residual stream twice: after attention and after the feed-forward.
        deviation *= (2 * spec.shape.layers) ** -0.5
    return torch.randn(size, generator=tensor_generator(seed, name)) * deviation


def fill_random(spec: TorchSpec, model: nn.Module, seed: int) -> None:
    """Set every tensor of the model, adapters excepted, to random weights, one at a time."""
    sizes = tensor_shapes(spec.shape)
    for name, weight in base_weights(model).items():
        store_weight(weight, random_value(spec, seed, name, torch.Size(sizes[name])))


def hidden_states(model: PreTrainedModel, tokens: Tensor, positions: Tensor, visible: AttentionMask,
                  cache: Any = None) -> Tensor:
    """``[B, S, D]`` normed hidden states of rows of tokens ``[B, S]``.

    Args:
        model: from `build_model`.
        tokens: ids.
        positions: of each token within its segment.
        visible: keys that a query may attend to.
        cache: transformers' key/value cache during generation; None in training.
    """
    cache_argument = {} if cache is None else {_cache_argument(type(model.base_model).forward): cache}
    out = model.base_model(input_ids=tokens, position_ids=positions, visible=visible, use_cache=cache is not None,
                           **cache_argument)
    factor: float = getattr(model, LOGIT_FACTOR, 1.0)  # for an unverified model whose class scales its logits
    return out.last_hidden_state if factor == 1.0 else out.last_hidden_state * factor


@lru_cache
def _cache_argument(forward: Callable[..., Any]) -> str:
    """Name of a class's cache argument: transformers 5.24 renamed it, and warns about the former name."""
    return "cache" if "cache" in signature(forward).parameters else "past_key_values"


def unembedding(model: PreTrainedModel) -> nn.Parameter:
    """The ``[V, D]`` matrix that turns hidden states into logits."""
    return model.get_output_embeddings().weight


def final_logits(model: PreTrainedModel, hidden: Tensor, softcap: float) -> Tensor:
    """``[..., V]`` float32 logits of normed hidden states."""
    # Converts the whole head if it is stored in another format. Only generation and comparisons call this.
    raw = (hidden @ unembedding(model).to(hidden.dtype).T).float()
    return softcap * torch.tanh(raw / softcap) if softcap else raw
