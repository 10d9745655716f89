"""Families in GGUF files: headers of published models are read back, values by hand, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.engines.tiny import tiny_shape
from tests.models.gguf.tiny_gguf import small
from workings.errors import RequestError
from workings.models.gguf.families import (
    ARCHITECTURES,
    gguf_names,
    hyperparameters,
    read_hyperparameters,
    rope_factors,
    to_gguf,
)
from workings.models.shapes import catalog, published_shape

PUBLISHED = tuple(name for name in catalog() if published_shape(name).family in ARCHITECTURES)


def header_of(shape):
    return {f"{shape.family}.{key}": value for key, value in hyperparameters(shape).items()} | {
        "general.architecture": shape.family}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_header_of_a_published_model_is_read_as_its_shape(name):
    shape = published_shape(name)
    # A file holds numbers in float32.
    stored = {key: float(np.float32(value)) if isinstance(value, float) else value
              for key, value in header_of(shape).items()}
    assert read_hyperparameters(stored, shape.vocab_size, not shape.tied_embeddings, rope_factors(shape)) == shape


def test_rows_of_llama_are_stored_in_pairs_and_norms_of_gemma_with_one_added():
    llama, gemma = small("llama"), small("gemma3")
    rows = np.arange(llama.heads * llama.head_dim, dtype=np.float32)[:, None] * np.ones(llama.width, np.float32)
    # A head of eight rows: those that rotate together are four apart in Hugging Face's format.
    assert to_gguf(llama, "model.layers.0.self_attn.q_proj.weight", rows)[:8, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert to_gguf(llama, "model.layers.0.self_attn.v_proj.weight", rows)[:8, 0].tolist() == [*range(8)]
    assert gguf_names(gemma, "gemma3")["model.layers.1.pre_feedforward_layernorm.weight"] == "blk.1.ffn_norm.weight"
    norm = np.zeros(gemma.head_dim, np.float32)
    for name in ("model.norm.weight", "model.layers.0.self_attn.q_norm.weight"):
        assert to_gguf(gemma, name, norm).tolist() == [1.0] * gemma.head_dim
    assert to_gguf(llama, "model.norm.weight", norm).tolist() == [0.0] * gemma.head_dim


@pytest.mark.parametrize(("changes", "said"), [
    ({"general.architecture": "mamba"}, "architecture mamba"),
    ({"llama.block_count": None}, "lacks llama.block_count"),
    ({"llama.expert_count": 8}, "expert_count: 8"),
    ({"llama.rope.scaling.type": "yarn"}, "rope.scaling.type: yarn"),
    ({"llama.attention.head_count_kv": [1, 2]}, "GGUF file differ in"),
    ({"llama.rope.dimension_count": 4}, "rope.dimension_count: 4"), ({}, "no published rule"),
])
def test_a_header_that_would_be_read_wrongly_is_refused(changes, said):
    shape = small("llama")
    header = {key: value for key, value in (header_of(shape) | changes).items() if value is not None}
    factors = None if changes else np.linspace(1, 3, shape.head_dim // 2, dtype=np.float32)
    with pytest.raises(RequestError, match=said):
        read_hyperparameters(header, shape.vocab_size, True, factors)


@pytest.mark.parametrize(("family", "changes", "said"), [
    ("gemma3", {"query_scale": 0.1}, "scores scaled by 0.1"),
    ("llama", {"rope_yarn": (4.0, 128, 32.0, 1.0, 1.1)}, "YaRN"),
    ("smollm3", {"unrotated_pattern": 2}, "without rotation"),
])
def test_a_model_that_llama_cpp_would_compute_otherwise_is_refused(family, changes, said):
    with pytest.raises(RequestError, match=said):
        hyperparameters(replace(tiny_shape(family), **changes))
