"""An objective's total, metrics and derivative: by NumPy, and by both frameworks, which differentiate by themselves."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.objectives.numpy_functions import NUMPY
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.model import final_logits, unembedding
from workings.engines.jax.objective import ARRAY as JAX
from workings.engines.jax.params_tree import flatten_params
from workings.engines.jax.step import all_hidden_states
from workings.engines.torch.objective import ARRAY as TORCH
from workings.models.batch import Batch


class Found(NamedTuple):
    """What an objective gives for some log probabilities."""

    total: float
    metrics: Mapping[str, float]
    """Each sum divided by its count."""
    derivative: np.ndarray | None
    """Of the total in each log probability; None by NumPy."""


def _found(total: Any, metrics: Any, derivative: np.ndarray | None) -> Found:
    return Found(float(total), {name: float(x / count) for name, (x, count) in metrics.items()}, derivative)


def by_numpy(objective: Any, log_probs: np.ndarray, mask: np.ndarray, signals: Mapping[str, np.ndarray]) -> Found:
    terms = objective.terms(NUMPY, log_probs, mask, signals)
    return _found(terms.total, terms.metrics, None)


def by_jax(objective: Any, log_probs: np.ndarray, mask: np.ndarray, signals: Mapping[str, np.ndarray]) -> Found:
    def total(x: jax.Array) -> Any:
        terms = objective.terms(JAX, x, jnp.asarray(mask, jnp.float32),
                                {name: jnp.asarray(y, jnp.float32) for name, y in signals.items()})
        return terms.total, terms.metrics

    (value, metrics), gradient = jax.value_and_grad(total, has_aux=True)(jnp.asarray(log_probs, jnp.float32))
    return _found(value, metrics, np.asarray(gradient))


def by_torch(objective: Any, log_probs: np.ndarray, mask: np.ndarray, signals: Mapping[str, np.ndarray]) -> Found:
    x = torch.tensor(log_probs, dtype=torch.float32, requires_grad=True)
    terms = objective.terms(TORCH, x, torch.tensor(mask, dtype=torch.float32),
                            {name: torch.tensor(y, dtype=torch.float32) for name, y in signals.items()})
    [gradient] = torch.autograd.grad(terms.total, x)
    with torch.no_grad():
        return _found(terms.total, terms.metrics, gradient.numpy())


FRAMEWORKS: dict[str, Callable[..., Found]] = {"numpy": by_numpy, "jax": by_jax, "torch": by_torch}


def expected_step(engine: JaxEngine, state: Any, batch: Batch) -> tuple[float, float, dict[str, float]]:
    """Value, gradient norm and metrics of a step by automatic differentiation through all logits at once."""
    spec = engine.spec
    temperature, targets = getattr(spec.objective, "temperature", 1.0), getattr(spec.objective, "target_signals", ())

    def total(params: Any) -> tuple[Any, Any]:
        value, metrics = 0.0, []
        for micro in range(batch.tokens.shape[0]):
            rows = {name: jnp.asarray(x[micro]) for name, x in batch.arrays.items()}
            logits = final_logits(all_hidden_states(spec, params, rows), unembedding(params), spec.shape)
            wanted = jnp.stack([rows[name] for name in targets or ("targets",)], -1).astype(jnp.int32)
            log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits / temperature), wanted, -1)
            log_probs = log_probs * rows["loss_mask"][..., None]
            terms = spec.objective.terms(JAX, log_probs if targets else log_probs[..., 0], rows["loss_mask"], rows)
            value += terms.total
            metrics.append([jnp.stack(terms.metrics[name]) for name in spec.objective.metrics])
        return value / batch.divisor, jnp.sum(jnp.asarray(metrics), 0)

    (value, metrics), gradient = jax.value_and_grad(total, has_aux=True)(state["params"])
    norm = np.sqrt(sum(float(jnp.sum(jnp.square(x))) for x in flatten_params(gradient).values()))
    return float(value), norm, {name: float(x / n) for name, (x, n) in
                                zip(spec.objective.metrics, metrics, strict=True)}
