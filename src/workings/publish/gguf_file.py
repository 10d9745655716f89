"""A model's folder in Hugging Face's format as one GGUF file for llama.cpp."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workings.engines.weight_files import model_weights, read_shape
from workings.models.chat import ChatTemplate
from workings.models.gguf.families import ROPE_FACTORS
from workings.models.gguf.forms import form_of
from workings.models.gguf.write_tokenizer import write_tokenizer
from workings.models.shape import ModelShape
from workings.models.stop_tokens import StopTokens
from workings.models.weights import tensor_shapes

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter

TYPES = ("bf16", "q8_0")
"""Number formats of matrices: bfloat16, or 8 bits with a scale for every 32 numbers."""
IN_FP32 = ("ssm_conv1d.weight",)
"""Ends of the names of matrices that are float32 in llama.cpp's own files, as all vectors are."""


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    name: str
    """In the GGUF file."""
    shape: tuple[int, ...]
    kind: "GGMLQuantizationType"
    read: Callable[[], np.ndarray]
    """Gives its values in float32."""


def write_gguf(folder: Path, file: Path, number_format: str, template: ChatTemplate, stop: StopTokens,
               name: str) -> None:
    """Write ``file`` from a folder of weights in Hugging Face's format, with a run's tokenizer and chat template.

    The caller makes the file atomic. ``number_format``: one of `TYPES`, or ``f32`` to compare; ``name``: shown by
    programs that open the file. Raises `RequestError` if GGUF or llama.cpp has no form for this model or tokenizer.
    """
    import gguf

    shape = read_shape(folder)
    form = form_of(shape)
    tensors = list(_tensors(folder, shape, number_format))
    writer = gguf.GGUFWriter(file, form.architecture)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(name)
    mostly = "ALL" if number_format == "f32" else "MOSTLY"
    writer.add_file_type(gguf.LlamaFileType[f"{mostly}_{number_format.upper()}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    kinds = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32,
             str: gguf.GGUFValueType.STRING}
    for name_in_header, value in form.header(shape).items():
        key = f"{form.architecture}.{name_in_header}"
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, kinds[type(value)])
    write_tokenizer(writer, template.tokenizer, shape.vocab_size)
    _add_special_tokens(writer, template, stop)
    for tensor in tensors:
        numbers, size = gguf.GGML_QUANT_SIZES[tensor.kind]
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), prod(tensor.shape) // numbers * size,
                               tensor.kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(gguf.quantize(tensor.read(), tensor.kind))
    writer.close()


def _tensors(folder: Path, shape: ModelShape, number_format: str) -> Iterator[_Tensor]:
    import gguf

    wanted, form = gguf.GGMLQuantizationType[number_format.upper()], form_of(shape)
    weights, sizes = model_weights(folder, shape), tensor_shapes(shape)

    def read(name: str) -> np.ndarray:
        # In float32 first: 1 + weight would lose bits in a smaller format.
        return form.change(shape, name, weights.read(name).astype(np.float32))

    for stored, name in form.names(shape).items():
        size = form.size(name, sizes[name])
        kind = wanted
        if len(size) == 1 or stored.endswith(IN_FP32):
            kind = gguf.GGMLQuantizationType.F32
        elif size[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:  # a row that is not whole blocks has no form in fewer bits
            kind = gguf.GGMLQuantizationType.BF16
        yield _Tensor(name=stored, shape=size, kind=kind, read=partial(read, name))
    if (factors := form.rotation(shape)) is not None:
        yield _Tensor(name=ROPE_FACTORS, shape=factors.shape, kind=gguf.GGMLQuantizationType.F32, read=lambda: factors)


def _add_special_tokens(writer: "GGUFWriter", template: ChatTemplate, stop: StopTokens) -> None:
    """Tokens that begin a text, end an answer and pad, and the chat template."""
    tokenizer = template.tokenizer
    if tokenizer.bos_id is not None:
        writer.add_bos_token_id(tokenizer.bos_id)
    writer.add_eos_token_id(stop.ids[0])
    # llama.cpp stops at the end of a sequence (eos) and at the end of a turn (eot).
    if len(stop.ids) > 1:
        writer.add_eot_token_id(stop.ids[1])
    if tokenizer.special_text("pad_token"):
        writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_add_bos_token(template.bos_id is not None)
    writer.add_add_eos_token(False)
    writer.add_chat_template(template.source)
