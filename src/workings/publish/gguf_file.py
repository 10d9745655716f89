"""A model's folder in Hugging Face's format as one GGUF file for llama.cpp, with the Modelfile that Ollama reads."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workings.engines.weight_files import model_weights, read_shape
from workings.errors import RequestError
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
MODELFILE = "Modelfile"
_USER, _MORE, _ANSWER, _SYSTEM = "first question", "second question", "an answer", "a system text"
NOT_WRITTEN = (f"{MODELFILE} has no TEMPLATE, because this chat template is not a fixed text around each turn: Ollama "
               "may render turns in another way; llama.cpp uses the model's own template")


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
    """Write the weights of ``folder`` with the tokenizer and the chat template of a run.

    Args:
        folder: has ``config.json`` and weights in safetensors.
        file: GGUF file to write; the caller makes it atomic.
        number_format: one of `TYPES`, or ``f32`` to compare.
        template: the trained one, bound to its tokenizer.
        stop: tokens that end an answer.
        name: shown by programs that open the file.

    Raises:
        RequestError: GGUF or llama.cpp has no form for this model or tokenizer.
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
    for key, value in form.header(shape).items():
        key = f"{form.architecture}.{key}"
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
    # One tensor at a time: the whole model may not fit into memory.
    for tensor in tensors:
        writer.write_tensor_data(gguf.quantize(tensor.read(), tensor.kind))
    writer.close()


def _tensors(folder: Path, shape: ModelShape, number_format: str) -> Iterator[_Tensor]:
    import gguf

    wanted, form = gguf.GGMLQuantizationType[number_format.upper()], form_of(shape)
    weights, sizes = model_weights(folder, shape), tensor_shapes(shape)
    for stored, name in form.names(shape).items():
        def read(name: str = name) -> np.ndarray:
            # In float32 first: 1 + weight would lose bits in a smaller format.
            return form.change(shape, name, weights.read(name).astype(np.float32))

        size = form.size(name, sizes[name])
        yield _Tensor(name=stored, shape=size, kind=_kind(stored, size, wanted), read=read)
    if (factors := form.rotation(shape)) is not None:
        yield _Tensor(name=ROPE_FACTORS, shape=factors.shape, kind=gguf.GGMLQuantizationType.F32,
                      read=lambda: factors)


def _kind(name: str, shape: tuple[int, ...], wanted: "GGMLQuantizationType") -> "GGMLQuantizationType":
    """Number format of a tensor in a file whose matrices have the wanted one."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    if len(shape) == 1 or name.endswith(IN_FP32):
        return GGMLQuantizationType.F32
    # A row that is not divided into whole blocks has no form in fewer bits.
    return wanted if shape[-1] % GGML_QUANT_SIZES[wanted][0] == 0 else GGMLQuantizationType.BF16


def _add_special_tokens(writer: "GGUFWriter", template: ChatTemplate, stop: StopTokens) -> None:
    """Tokens that begin a text, end an answer and pad, and the chat template."""
    tokenizer = template.tokenizer
    if tokenizer.bos_id is not None:
        writer.add_bos_token_id(tokenizer.bos_id)
    writer.add_eos_token_id(stop.ids[0])
    # llama.cpp stops at either.
    if stop.ids[1:]:
        writer.add_eot_token_id(stop.ids[1])
    if tokenizer.special_text("pad_token"):
        writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_add_bos_token(template.bos_id is not None)
    writer.add_add_eos_token(False)
    writer.add_chat_template(template.source)


def write_modelfile(file: Path, weights: str, template: ChatTemplate, stop: StopTokens) -> list[str]:
    """Write Ollama's description of the GGUF file ``weights`` in the same folder.

    Returns a note if the template cannot be written in Ollama's language.
    """
    lines = [f"FROM ./{weights}", "PARAMETER temperature 0"]
    lines += [f'PARAMETER stop "{template.tokenizer.token(number)}"' for number in stop.ids]
    turns = _go_template(template)
    lines += [f'TEMPLATE """{turns}"""'] if turns else []
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [] if turns else [NOT_WRITTEN]


def _go_template(template: ChatTemplate) -> str | None:
    """The fixed texts that a template writes around turns, in Go's language; None if they depend on the turns."""
    once = template.prompt_text(_USER)
    try:
        twice = template.prompt_text(_MORE, [("user", _USER), ("assistant", _ANSWER)])
    except RequestError:  # it drops or changes earlier turns
        return None
    first, _, answer = once.partition(_USER)
    between = twice.removeprefix(once + _ANSWER).partition(_MORE)[0]
    if twice != f"{once}{_ANSWER}{between}{_MORE}{answer}":
        return None
    bos = template.tokenizer.special_text("bos_token")
    # Ollama puts that token in front itself, as the GGUF file tells it to.
    begins = len(bos) if template.bos_id is not None and bos and first.startswith(bos) else 0
    texts = [first[begins:], answer, between]
    before, system = '{{ if eq $last "assistant" }}' + between + "{{ else }}" + texts[0] + "{{ end }}", ""
    with suppress(RequestError):  # a template without system texts
        start, _, rest = template.prompt_text(_USER, [("system", _SYSTEM)]).partition(_SYSTEM)
        if not rest.endswith(_USER + answer):
            return None
        texts += [start[begins:], rest.removesuffix(_USER + answer)]
        before = '{{ if eq $last "system" }}' + texts[-1] + "{{ else }}" + before + "{{ end }}"
        system = '{{ else if eq .Role "system" }}' + texts[-2] + "{{ .Content }}"
    # Marks of Go's language and of the file itself.
    if any(mark in text for text in texts for mark in ("{{", "}}", '"""')):
        return None
    # Without "-" in the marks: white space in the texts is a part of the template.
    return ('{{ $last := "" }}{{ range .Messages }}{{ if eq .Role "user" }}' + before + "{{ .Content }}" + answer
            + '{{ else if eq .Role "assistant" }}{{ .Content }}' + system
            + "{{ end }}{{ $last = .Role }}{{ end }}")
