"""The JAX engine and what it is compared with: its logits, and an exported model opened by transformers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import request, tiny_shape
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.model import final_logits, hidden_states, unembedding

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def our_logits(engine: JaxEngine, params: dict, tokens: np.ndarray) -> np.ndarray:
    """``[B, S, V]`` logits of rows without padding."""
    spec = engine.spec
    positions = np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), tokens.shape)

    @jax.jit
    def logits(params: dict, tokens: jax.Array) -> jax.Array:
        hidden = hidden_states(params, spec.shape, tokens, jnp.asarray(positions), jnp.ones_like(tokens),
                               attention=spec.attention, remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout)
        return final_logits(hidden, unembedding(params), spec.shape)

    return np.asarray(logits(params, jnp.asarray(tokens)))


def roughened(engine: JaxEngine, seed: int = 3) -> dict:
    """Random norms, biases and larger matrices: at their initial values several features would be invisible."""
    state = engine.init(seed)
    draw = np.random.default_rng(1)
    layers = {name: jnp.asarray(x + draw.normal(0, 0.3, x.shape).astype(np.float32))
              for name, x in state["params"]["layers"].items()}
    return state | {"params": state["params"] | {"layers": layers}}


def exported(family: str, folder: Path, **changes: object):
    """Engine, state and the same model opened by transformers (float32, plain attention)."""
    engine = JaxEngine.open(request(tiny_shape(family, **changes)))
    state = roughened(engine)
    engine.export(state, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return engine, state, model.eval()
