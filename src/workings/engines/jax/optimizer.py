"""Update rules as pure functions over trees of parameters. State leaves have a first axis L where layers are stacked.

A rule is three functions: ``init(params) -> moments``, ``update(param, grad, moments of it, step, learning_rate)``
for one tensor, and the places of its moments on a mesh.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from workings.config.training import AdafactorConfig, AdamW8bitConfig, AdamWConfig, MuonConfig, OptimizerConfig
from workings.engines.jax.model import Params
from workings.errors import RequestError

Moments = dict[str, Any]
STACK, LAYER = "layers.", "layer."
"""What flat names begin with: ``layers.<name>`` a tensor of all layers, ``layer.<number>.<name>`` of one."""


def flat(tree: Params) -> dict[str, Any]:
    """One dictionary: `STACK` or `LAYER` names for tensors of layers, the plain name for the others."""
    outer, layers = {name: x for name, x in tree.items() if name != "layers"}, tree.get("layers", {})
    if isinstance(layers, dict):
        return outer | {f"{STACK}{name}": x for name, x in layers.items()}
    return outer | {f"{LAYER}{i}.{name}": x for i, layer in enumerate(layers) for name, x in layer.items()}


def nested(flat_tree: dict[str, Any]) -> Params:
    """The inverse of `flat`."""
    outer = {name: x for name, x in flat_tree.items() if not name.startswith((STACK, LAYER))}
    apart: dict[int, Params] = {}
    for name, x in flat_tree.items():
        if name.startswith(LAYER):
            number, _, inner = name.removeprefix(LAYER).partition(".")
            apart.setdefault(int(number), {})[inner] = x
    if apart:
        return outer | {"layers": [apart[i] for i in range(len(apart))]}
    return outer | {"layers": {name.removeprefix(STACK): x for name, x in flat_tree.items() if name.startswith(STACK)}}


def is_matrix(name: str, x: jax.Array) -> bool:
    """Whether weight decay applies: matrices, not norms or biases. Stacked tensors have one axis more."""
    return x.ndim - name.startswith(STACK) >= 2


def global_norm(grads: dict[str, jax.Array]) -> jax.Array:
    """L2 norm over all tensors, in float32."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in grads.values()))


def clip_factor(norm: jax.Array, limit: float) -> jax.Array:
    """What gradients are multiplied by so that their global norm is at most ``limit``; 1 where it already is."""
    return jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))


class AdamW:
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2).

    Moments ``exp_avg`` and ``exp_avg_sq`` have the parameter's shape.
    """

    slots = ("exp_avg", "exp_avg_sq")

    def __init__(self, config: AdamWConfig | MuonConfig, moment_dtype: Any) -> None:
        self.config = config
        self.moment_dtype = moment_dtype

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: slot -> name -> array."""
        return {slot: {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in params.items()}
                for slot in self.slots}

    def place(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """A moment lies where its parameter lies."""
        return parameter

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New float32 value of one tensor and its new moments. ``step`` counts from 1."""
        c = self.config
        mean = c.beta1 * moments["exp_avg"].astype(jnp.float32) + (1 - c.beta1) * grad
        square = c.beta2 * moments["exp_avg_sq"].astype(jnp.float32) + (1 - c.beta2) * jnp.square(grad)
        count = step.astype(jnp.float32)
        direction = (mean / (1 - c.beta1 ** count)) / (jnp.sqrt(square / (1 - c.beta2 ** count)) + c.epsilon)
        wide = param.astype(jnp.float32)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        kept = {"exp_avg": mean.astype(self.moment_dtype), "exp_avg_sq": square.astype(self.moment_dtype)}
        return wide - learning_rate * direction, kept


class Adafactor:
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False`` and no first moment.

    A matrix has a row and a column of second moments, a vector a full one. Every matrix of a stack is a matrix of its
    own: means and the clip of the update never cross layers. All float32 values are functions of one element and of
    these small vectors, so the compiler fuses them and no float32 copy of a matrix exists.
    """

    slots = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")

    def __init__(self, config: AdafactorConfig, moment_dtype: Any) -> None:
        self.config = config
        self.moment_dtype = moment_dtype

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: slot -> name -> array."""
        moments: Moments = {slot: {} for slot in self.slots}
        for name, x in params.items():
            if is_matrix(name, x):
                moments["exp_avg_sq_row"][name] = jnp.zeros(x.shape[:-1], self.moment_dtype)
                moments["exp_avg_sq_col"][name] = jnp.zeros((*x.shape[:-2], x.shape[-1]), self.moment_dtype)
            else:
                moments["exp_avg_sq"][name] = jnp.zeros(x.shape, self.moment_dtype)
        return moments

    def place(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """A row of moments is split as the parameter's rows are, a column as its columns."""
        if slot == "exp_avg_sq":
            return parameter
        spec = (*parameter.spec, *[None] * (2 + name.startswith(STACK) - len(parameter.spec)))
        kept = spec[:-1] if slot == "exp_avg_sq_row" else (*spec[:-2], spec[-1])
        return NamedSharding(parameter.mesh, PartitionSpec(*kept))

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New float32 value of one tensor (or stack of tensors) and its new moments. ``step`` counts from 1."""
        c = self.config
        decay = 1.0 - step.astype(jnp.float32) ** -c.decay_power
        square = jnp.square(grad) + c.epsilon

        def mixed(slot: str, new: jax.Array) -> jax.Array:
            return decay * moments[slot].astype(jnp.float32) + (1.0 - decay) * new

        axes: tuple[int, ...]
        if is_matrix(name, param):
            row, col = mixed("exp_avg_sq_row", square.mean(-1)), mixed("exp_avg_sq_col", square.mean(-2))
            factor = jax.lax.rsqrt(row / row.mean(-1, keepdims=True))[..., None] * jax.lax.rsqrt(col)[..., None, :]
            kept, axes = {"exp_avg_sq_row": row, "exp_avg_sq_col": col}, (-2, -1)
        else:
            full = mixed("exp_avg_sq", square)
            factor, kept, axes = jax.lax.rsqrt(full), {"exp_avg_sq": full}, (-1,)
        size = jnp.sqrt(jnp.mean(jnp.square(grad * factor), axes, keepdims=True))
        wide = param.astype(jnp.float32)
        direction = grad * factor / jnp.maximum(1.0, size / c.clip_threshold)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        return wide - learning_rate * direction, {slot: x.astype(self.moment_dtype) for slot, x in kept.items()}


class Muon:
    """Muon by optax for the matrices of the layers, `AdamW` for everything else.

    Every matrix of a stack is one of its own, and they are made orthogonal one after the other: the float32
    temporaries of an update are those of one layer's matrix.
    """

    slots = ("momentum_buffer", *AdamW.slots)

    def __init__(self, config: MuonConfig, moment_dtype: Any) -> None:
        self.config = config
        self.moment_dtype = moment_dtype
        self.adamw = AdamW(config, moment_dtype)

    @staticmethod
    def _orthogonal(name: str, x: jax.Array) -> bool:
        return name.startswith(STACK) and is_matrix(name, x)

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: slot -> name -> array."""
        mine = {name: x for name, x in params.items() if self._orthogonal(name, x)}
        rest = {name: x for name, x in params.items() if name not in mine}
        return self.adamw.init(rest) | {
            "momentum_buffer": {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in mine.items()}}

    def place(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """A moment lies where its parameter lies."""
        return parameter

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New float32 value of one tensor (or stack of tensors) and its new moments. ``step`` counts from 1."""
        if not self._orthogonal(name, param):
            return self.adamw.update(name, param, grad, moments, step, learning_rate)
        from optax.contrib import MuonDimensionNumbers, MuonState, scale_by_muon

        c = self.config
        # Hugging Face's matrices are [out, in].
        rule = scale_by_muon(beta=c.momentum, ns_steps=c.ns_steps, nesterov=c.nesterov,
                             weight_dimension_numbers=MuonDimensionNumbers(reduction_axis=1, output_axis=0))

        def one(layer: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            mine, before = layer[0], layer[1].astype(jnp.float32)
            state = MuonState(count=step - 1, mu=before, ns_coeffs=rule.init(mine).ns_coeffs)
            direction, after = rule.update(mine, state)
            return direction, after.mu.astype(self.moment_dtype)

        direction, momentum = jax.lax.map(one, (grad, moments["momentum_buffer"]))
        out, inner = param.shape[-2:]
        factor = max(1.0, out / inner) ** 0.5 if c.adjust_lr == "original" else 0.2 * max(out, inner) ** 0.5
        wide = param.astype(jnp.float32)
        return wide - learning_rate * (factor * direction + c.weight_decay * wide), {"momentum_buffer": momentum}


Rule = AdamW | Adafactor | Muon


def make_rule(config: OptimizerConfig, moment_dtype: Any) -> Rule:
    """The rule that a recipe names."""
    if isinstance(config, AdamW8bitConfig):
        raise RequestError(f"optimizer.name: {config.name} with engine jax", "adamw or adafactor: 8-bit moments are "
                           "bitsandbytes'", "optimizer.name=adamw, or engine=torch")
    if isinstance(config, AdamWConfig):
        return AdamW(config, moment_dtype)
    if isinstance(config, MuonConfig):
        return Muon(config, moment_dtype)
    return Adafactor(config, moment_dtype)
