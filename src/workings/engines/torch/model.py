"""Models by transformers, built from a shape: no remote code, nothing unpickled, weights filled or read by name.

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
from workings.engines.torch.unproven import LOGIT_FACTOR, prepare_model, unproven_config
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.weights import LAYER_SCALAR, PER_LAYER_EMBEDDING, first_value, projections, tensor_shapes


def hf_config(shape: ModelShape, attention_name: str) -> Any:
    """The configuration of transformers' model."""
    # A padding index would stop the gradient of one embedding row, whose token may be a real one.
    values = to_hf_config(shape) | {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    no_dropout = dict.fromkeys(family_of(shape).dropout, 0.0)  # no run here drops anything, whatever the model
    config = (AutoConfig.for_model(values.pop("model_type"), **(values | no_dropout)) if shape.proven
              else unproven_config(shape, values))
    config._attn_implementation = f"workings_{attention_name}"
    return config


def empty_model(spec: TorchSpec) -> PreTrainedModel:
    """The model, adapters included, with parameters that have no memory yet (device ``meta``) and real buffers."""
    attention.register()
    # Buffers such as rotary tables are computed when they are made; no file would fill them later.
    config = hf_config(spec.shape, spec.attention)
    with no_init_weights(), accelerate.init_empty_weights(include_buffers=False), by_own_operations(config.model_type):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # `allocate` gives each object memory once, so tied weights must be one object by then.
    model.tie_weights()
    if not spec.shape.proven:
        prepare_model(model)
    keep_plain_where_layers_slide(model)
    compute_states(model)
    add_adapters(spec, model)
    # Nothing is drawn at random in a layer, so no generator's state is saved for the second forward.
    if spec.checkpointing:
        # Its name in later releases of transformers, which warn of the older one.
        enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
        enable({"use_reentrant": False, "preserve_rng_state": False})
    return model.train()  # checkpointing asks for training mode; nothing is dropped in either


def allocate(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Give every parameter memory, contents undefined: adapters in float32, everything else in ``dtype``.

    On the device ``meta`` parameters get their format only, and buffers stay where they are. A table that
    stays in its place gets its memory in `build_model`.
    """
    made: dict[int, nn.Parameter] = {}
    for place, module in model.named_modules():
        for name, old in module.named_parameters(recurse=False):
            # By identity: a tied matrix gets memory once and stays one parameter.
            if id(old) not in made:
                where = torch.device("meta") if isinstance(module, FixedTable) else device
                data = torch.empty(old.shape, dtype=torch.float32 if "lora_" in place else dtype, device=where)
                made[id(old)] = nn.Parameter(data, requires_grad=old.requires_grad)
            setattr(module, name, made[id(old)])
        for name, buffer in module.named_buffers(recurse=False):
            if name == LAYER_SCALAR:  # a tensor of the model's files, stored as those are
                buffer = buffer.to(dtype)
                setattr(module, name, buffer)
            if device.type != "meta":
                setattr(module, name, torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device))


def build_model(spec: TorchSpec) -> FsdpRoot:
    """The model on the device with parameters of undefined contents; on several processes, this one's part."""
    with unset_fake_temporarily():  # peft moves modules, which fake tensors refuse; on meta nothing has memory anyway
        model, several = empty_model(spec), spec.mesh.fsdp > 1
    # A table that is not split among processes must not be moved with what is.
    table = per_layer_table(model) if spec.table_on_host or several else None
    if table is not None:
        keep_in_place(table, spec.compute_dtype)
    # Several processes stay on `meta` until FSDP has split: none ever holds the whole model.
    allocate(model, spec.parameter_dtype, torch.device("meta") if several else spec.device)
    if table is not None and spec.device.type != "meta":
        place = torch.device("cpu") if spec.table_on_host else spec.device
        table.weight = nn.Parameter(torch.empty_like(table.weight, device=place), requires_grad=False)
    # An unknown class may do more than its name says.
    by_kernel = spec.card_kernels and spec.compute_dtype == torch.bfloat16 and spec.shape.proven
    if by_kernel:
        use_kernels(model)
    # Formats are read from the weights, so after `allocate`; a tied embedding's class replaces the one set here.
    mix_formats(model, spec.compute_dtype, unrounded=by_kernel)
    # An unknown class may have an embedding that does more than look up, which must not be exchanged.
    if spec.shape.proven or type(model.get_input_embeddings()) is nn.Embedding:
        share_gradient(model, spec.compute_dtype)
    root = split(model, spec.mesh, spec.device)
    if several:
        # `to_empty` would lose the buffers, which have contents already.
        root._apply(lambda x: torch.empty_like(x, device=spec.device) if x.is_meta else x.to(spec.device))
    return root


def random_value(spec: TorchSpec, seed: int, name: str, size: torch.Size, *, transposed: bool) -> Tensor:
    """Float32 random weights of one tensor, on the CPU: the same numbers on every device and any number of them.

    The distribution is that of `engines/jax/init.py`: normal of variance 1 / fan-in, smaller where a matrix writes
    into the residual stream; vectors start as `first_value` says, or as their family draws them.
    """
    family = family_of(spec.shape)
    if drawn := next((of for end, of in family.drawn_vectors.items() if name.endswith(end)), None):
        return torch.tensor([*map(drawn, torch.rand(size, generator=tensor_generator(seed, name)).tolist())])
    if len(size) == 1:
        return torch.full(size, first_value(name, size[0], spec.shape))
    fan_in = size[0] if transposed else size[-1]
    if name == PER_LAYER_EMBEDDING:  # a row is as many embeddings as there are layers
        fan_in = spec.shape.per_layer_width
    deviation = float(fan_in) ** -0.5
    if name.endswith(tuple(f"{each}.weight" for each in family.residual)):
        # A layer adds to the residual stream twice: after attention and after feed-forward.
        deviation *= (2 * spec.shape.layers) ** -0.5
    return torch.randn(size, generator=tensor_generator(seed, name)) * deviation


def fill_random(spec: TorchSpec, model: nn.Module, seed: int) -> None:
    """Random weights for every tensor of the model itself, one at a time."""
    sizes, transposed = tensor_shapes(spec.shape), family_of(spec.shape).matrices_in_out
    for name, place in base_weights(model).items():
        turned = transposed and name.endswith(tuple(f"{each}.weight" for each in projections(spec.shape)))
        store_weight(place, random_value(spec, seed, name, torch.Size(sizes[name]), transposed=turned))


def hidden_states(model: PreTrainedModel, tokens: Tensor, positions: Tensor, visible: AttentionMask,
                  cache: Any = None) -> Tensor:
    """``[B, S, D]`` normed hidden states of rows of tokens ``[B, S]``.

    Args:
        model: from `build_model`.
        tokens: ids.
        positions: of each token within its segment.
        visible: what a query may see.
        cache: transformers' key/value cache during generation; None in training.
    """
    given = {} if cache is None else {_cache_argument(type(model.base_model).forward): cache}
    out = model.base_model(input_ids=tokens, position_ids=positions, visible=visible, use_cache=cache is not None,
                           **given)
    factor: float = getattr(model, LOGIT_FACTOR, 1.0)  # of an unproven model whose class scales its logits
    return out.last_hidden_state if factor == 1.0 else out.last_hidden_state * factor


@lru_cache
def _cache_argument(forward: Callable[..., Any]) -> str:
    """What a class calls its cache: transformers 5.24 renamed it, and warns where it is given by its former name."""
    return "cache" if "cache" in signature(forward).parameters else "past_key_values"


def unembedding(model: PreTrainedModel) -> nn.Parameter:
    """The ``[V, D]`` matrix that turns hidden states into logits."""
    return model.get_output_embeddings().weight


def final_logits(model: PreTrainedModel, hidden: Tensor, softcap: float) -> Tensor:
    """``[..., V]`` float32 logits of normed hidden states."""
    # Casts the whole head where storage differs; generation and comparisons come here, a training step does not.
    raw = (hidden @ unembedding(model).to(hidden.dtype).T).float()
    return softcap * torch.tanh(raw / softcap) if softcap else raw
