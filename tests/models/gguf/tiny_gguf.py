"""Tiny GGUF files, written by the `gguf` package."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.engines.tiny import tiny_shape
from workings.models.gguf.families import ROPE_FACTORS, gguf_names, hyperparameters, rope_factors, to_gguf
from workings.models.registry import find_family
from workings.models.shape import ModelShape
from workings.models.weights import tensor_shapes

TEXTS = ["The capital of France is Paris, and 1 234 + 567 = 1 801.\n\n\tIt's   what we'LL say: naïve café, 你好!",
         "<|im_start|>user\nWhat is 12+30?<|im_end|>", "  two  spaces\r\n\r\nand a line", ""]


def small(family: str) -> ModelShape:
    """A tiny shape by the rules that llama.cpp has for the family."""
    shape = tiny_shape(family, layers=6)
    changes = {"query_scale": shape.head_dim ** -0.5} if shape.sliding_pattern else {}
    return replace(shape, **changes, unrotated_pattern=find_family(family).switches.get("unrotated_pattern", 0))


def byte_pair_tokenizer(cut: Any, *, whole_first: bool = False) -> tokenizers.Tokenizer:
    """A small byte-pair tokenizer with two control tokens, trained on `TEXTS`."""
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=whole_first))
    made.pre_tokenizer, made.decoder = cut, decoders.ByteLevel()
    made.train_from_iterator(TEXTS * 4, trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|im_start|>", "<|im_end|>"]))
    return made


def byte_pair_header(made: tokenizers.Tokenizer, pre: str) -> dict[str, Any]:
    """Its part of a GGUF header."""
    content = json.loads(made.to_str())
    ids = made.get_vocab(with_added_tokens=True)
    added = {token["id"] for token in content["added_tokens"]}
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": sorted(ids, key=ids.__getitem__),
            "tokenizer.ggml.token_type": [3 if number in added else 1 for number in range(len(ids))],
            "tokenizer.ggml.merges": [" ".join(pair) for pair in content["model"]["merges"]],
            "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1}


def random_tensors(shape: ModelShape, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights of a model under Hugging Face's names, in numbers that bfloat16 holds."""
    draw = np.random.default_rng(seed)
    return {name: (draw.integers(-64, 65, size) / 128).astype(np.float32)
            for name, size in tensor_shapes(shape).items()}


def write_gguf(path: Path, shape: ModelShape, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any],
               quantization: str = "F32", **changes: Any) -> Path:
    """A GGUF file with these tensors; ``changes`` by key, None leaves one out."""
    writer = gguf.GGUFWriter(path, shape.family)
    values = {f"{shape.family}.{key}": value for key, value in hyperparameters(shape).items()} | dict(header) | changes
    for key, value in values.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    kind = gguf.GGMLQuantizationType[quantization]
    block = gguf.GGML_QUANT_SIZES[kind][0]
    names = gguf_names(shape, shape.family)
    for name, tensor in tensors.items():
        stored = np.ascontiguousarray(to_gguf(shape, name, tensor))
        fits = tensor.ndim > 1 and tensor.shape[-1] % block == 0
        writer.add_tensor(names[name], gguf.quants.quantize(stored, kind) if fits else stored,
                          raw_dtype=kind if fits else None)
    if (factors := rope_factors(shape)) is not None:
        writer.add_tensor(ROPE_FACTORS, factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
