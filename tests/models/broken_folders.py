"""Model folders that are broken, each in one way: what a download that broke off, another tool or an attacker leaves.

`folder` writes a sound one, a tiny Llama with random weights and a tokenizer. `BROKEN` changes its files: name of the
case -> (how, file that the error has to name).
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workings.engines.safetensors_file import write_tensors
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.tokenizer_training import train_tokenizer
from workings.models.weights import tensor_shapes

SHAPE = ModelShape(family="llama", vocab_size=300, layers=2, width=16, mlp_width=16, heads=2, kv_heads=1, head_dim=8,
                   context=64, activation="silu", scaled_embeddings=False, norm_plus_one=False)
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
NORM = "model.norm.weight"
"""A tensor that every case may break: 16 numbers of float32."""
Break = Callable[[Path], object]
Header = dict[str, Any]


def folder(place: Path) -> Path:
    """A sound folder, which opens on both engines."""
    place.mkdir()
    generator = np.random.default_rng(0)
    sizes = tensor_shapes(SHAPE)
    write_tensors(place / WEIGHTS, {name: (np.dtype(np.float32), size) for name, size in sizes.items()},
                  lambda name: generator.normal(0, 0.02, sizes[name]).astype(np.float32))
    (place / CONFIG).write_text(json.dumps(to_hf_config(SHAPE)))
    train_tokenizer(["one and two are three", "<answer>3</answer>"], SHAPE.vocab_size).save(place)
    return place


def broken(sound: Path, place: Path, name: str) -> Path:
    """A copy of a sound folder, broken in the way of this name."""
    shutil.copytree(sound, place)
    BROKEN[name][0](place)
    return place


def _written(file: str, content: bytes | str) -> Break:
    data = content.encode() if isinstance(content, str) else content
    return lambda place: (place / file).write_bytes(data)


def _config(**changes: Any) -> Break:
    """``config.json`` with these values; `...` takes a key away."""
    def change(place: Path) -> None:
        values = json.loads((place / CONFIG).read_text()) | changes
        (place / CONFIG).write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))
    return change


def _header(change: Callable[[Header], object], *, raw: Callable[[bytes], bytes] = lambda text: text) -> Break:
    """The weights with another header over the same bytes."""
    def write(place: Path) -> None:
        data = (place / WEIGHTS).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        change(header)
        text = raw(json.dumps(header).encode())
        (place / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length:])
    return write


def _norm(**values: Any) -> Break:
    """The header's entry of one tensor with other values."""
    return _header(lambda header: header[NORM].update(values))


def _cut(file: str, length: int) -> Break:
    return lambda place: (place / file).write_bytes((place / file).read_bytes()[:length])


def _sparse(file: str, size: int, begin: bytes = b"") -> Break:
    """A file of this size that takes no space on the disk."""
    def write(place: Path) -> None:
        with (place / file).open("wb") as opened:
            opened.write(begin)
            opened.truncate(size)
    return write


def _index(value: Any, *, shards: int = 0) -> Break:
    """An index alongside, or above, the weights; with ``shards`` they are copied to as many files."""
    def write(place: Path) -> None:
        for number in range(shards):
            shutil.copyfile(place / WEIGHTS, place / f"part-{number}.safetensors")
        (place / INDEX).write_text(json.dumps(value))
    return write


def _listed(keep: Callable[[str], bool], *, norm: str = WEIGHTS) -> Break:
    """An index of the weights, and of a second shard with one more tensor; ``norm``: where it says one tensor is."""
    def write(place: Path) -> None:
        write_tensors(place / "part-1.safetensors", {"x": (np.dtype(np.float32), (1,))},
                      lambda name: np.zeros(1, np.float32))
        places = {name: WEIGHTS for name in tensor_shapes(SHAPE) if keep(name)} | {"x": "part-1.safetensors"}
        (place / INDEX).write_text(json.dumps({"weight_map": places | ({NORM: norm} if keep(NORM) else {})}))
    return write


def _replaced(file: str, make: Callable[[Path], object]) -> Break:
    """Something else, or nothing, in place of a file."""
    def change(place: Path) -> None:
        (place / file).unlink()
        make(place / file)
    return change


def _overlapping(header: Header) -> None:
    start, end = header["model.layers.0.input_layernorm.weight"]["data_offsets"]
    header[NORM]["data_offsets"] = [start, end]


def _twice(text: bytes) -> bytes:
    return text[:-1] + b', "model.norm.weight": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}'


def _other_shapes(place: Path) -> None:
    sizes = tensor_shapes(SHAPE) | {NORM: (17,)}
    write_tensors(place / WEIGHTS, {name: (np.dtype(np.float32), size) for name, size in sizes.items()},
                  lambda name: np.zeros(sizes[name], np.float32))


def _grown(place: Path) -> None:
    with (place / WEIGHTS).open("ab") as file:
        file.write(b"\0" * 64)


DEEP = "[" * 100_000 + "]" * 100_000
BROKEN: dict[str, tuple[Break, str]] = {
    # config.json as a file
    "config: missing": (_replaced(CONFIG, lambda file: None), CONFIG),
    "config: cut": (_cut(CONFIG, 100), CONFIG),
    "config: not UTF-8": (_written(CONFIG, b'{"model_type": "\xff\xfe"}'), CONFIG),
    "config: a list": (_written(CONFIG, "[1, 2]"), CONFIG),
    "config: nested deep": (_written(CONFIG, '{"model_type": "llama", "x": ' + DEEP + "}"), CONFIG),
    "config: 4 GiB": (_sparse(CONFIG, 4 << 30, b"{"), CONFIG),
    "config: a folder": (_replaced(CONFIG, Path.mkdir), CONFIG),
    "config: a link to /dev/zero": (_replaced(CONFIG, lambda file: file.symlink_to("/dev/zero")), CONFIG),
    "config: NaN": (_config(rms_norm_eps=float("nan")), CONFIG),
    "config: one key with two values": (
        _written(CONFIG, json.dumps(to_hf_config(SHAPE))[:-1] + ', "num_hidden_layers": 3}'), CONFIG),
    # config.json's values
    "config: no model_type": (_config(model_type=...), CONFIG),
    "config: model_type a list": (_config(model_type=["llama"]), CONFIG),
    "config: unknown model_type": (_config(model_type="abacus"), CONFIG),
    "config: no layers": (_config(num_hidden_layers=...), CONFIG),
    "config: layers a billion": (_config(num_hidden_layers=10**9), CONFIG),
    "config: kv_heads that do not divide": (_config(num_attention_heads=3, num_key_value_heads=2), CONFIG),
    "config: head_dim odd": (_config(head_dim=7), CONFIG),
    "config: rope_scaling a text": (_config(rope_scaling="linear"), CONFIG),
    "config: rope_scaling without factor": (_config(rope_scaling={"rope_type": "linear"}), CONFIG),
    "config: rope_parameters of lists": (_config(rope_parameters={"full_attention": [1]}), CONFIG),
    "config: llama3 without its numbers": (_config(rope_scaling={"rope_type": "llama3", "factor": 8.0}), CONFIG),
    "config: another activation": (_config(hidden_act="relu", hidden_activation=...), CONFIG),
    "config: layer_types a number": (_config(model_type="gemma3_text", sliding_window=4, layer_types=3), CONFIG),
    "config: query scale 0": (_config(model_type="gemma2", sliding_window=4, query_pre_attn_scalar=0), CONFIG),
    "config: text_config a text": (_config(model_type="gemma3", text_config="small"), CONFIG),
    "config: text_config with lists": (
        _config(model_type="gemma3", text_config={"model_type": "gemma3_text", "hidden_size": [1]}), CONFIG),
    "config: another family than the tensors": (_config(model_type="qwen3"), "has no tensor model.layers.0"),
    "config: tied embeddings a text": (_config(tie_word_embeddings="no"), CONFIG),
    "config: quantized": (_config(quantization_config={"quant_method": "awq", "bits": 4}), CONFIG),
    "config: an unknown number format": (_config(torch_dtype="float7"), CONFIG),
    # the weights as a file
    "weights: missing": (_replaced(WEIGHTS, lambda file: None), ""),
    "weights: seven bytes": (_written(WEIGHTS, b"1234567"), WEIGHTS),
    "weights: cut in the header": (_cut(WEIGHTS, 300), WEIGHTS),
    "weights: cut in the tensors": (_cut(WEIGHTS, 5_000), WEIGHTS),
    "weights: a header of 4 GiB": (_sparse(WEIGHTS, (4 << 30) + 100, (4 << 30).to_bytes(8, "little")), WEIGHTS),
    "weights: a folder": (_replaced(WEIGHTS, Path.mkdir), WEIGHTS),
    "weights: more bytes than tensors": (_grown, WEIGHTS),
    # the weights' header
    "header: a list": (_header(len, raw=lambda text: b"[1]"), WEIGHTS),
    "header: nested deep": (_header(len, raw=lambda text: DEEP.encode()), WEIGHTS),
    "header: no tensors": (_written(WEIGHTS, (2).to_bytes(8, "little") + b"{}"), "model."),
    "header: a tensor twice": (_header(len, raw=_twice), WEIGHTS),
    "header: a tensor renamed": (_header(lambda header: header.update(x=header.pop(NORM))), NORM),
    "header: an entry a list": (_header(lambda header: header.update({NORM: [1]})), WEIGHTS),
    "header: metadata a list": (_header(lambda header: header.update({"__metadata__": [1]})), WEIGHTS),
    "header: dtype unknown": (_norm(dtype="F7"), WEIGHTS),
    "header: dtype of another size": (_norm(dtype="F64"), WEIGHTS),
    "header: dtype of integers": (_norm(dtype="I32"), WEIGHTS),
    "header: shape negative twice": (_norm(shape=[-4, -4]), WEIGHTS),
    "header: shape beyond memory": (_norm(shape=[2**62, 2**62]), WEIGHTS),
    "header: shape [1, 16]": (_norm(shape=[1, 16]), NORM),
    "header: offsets of texts": (_norm(data_offsets=["0", "64"]), WEIGHTS),
    "header: offsets negative": (_norm(data_offsets=[-64, 0]), WEIGHTS),
    "header: offsets backwards": (_norm(data_offsets=[64, 0]), WEIGHTS),
    "header: offsets beyond the file": (_norm(data_offsets=[10**9, 10**9 + 64]), WEIGHTS),
    "header: tensors on top of each other": (_header(_overlapping), WEIGHTS),
    "header: another shape": (_other_shapes, NORM),
    # the index
    "index: a list": (_index([1]), INDEX),
    "index: weight_map a list": (_index({"weight_map": [WEIGHTS]}), INDEX),
    "index: names that are numbers": (_index({"weight_map": {NORM: 1}}), INDEX),
    "index: a name above the folder": (_index({"weight_map": {NORM: "../model.safetensors"}}), INDEX),
    "index: an absolute name": (_index({"weight_map": {NORM: "/dev/zero"}}), INDEX),
    "index: a shard that is missing": (_index({"weight_map": {NORM: "part-9.safetensors"}}), "part-9.safetensors"),
    "index: a name that no file can have": (_index({"weight_map": {NORM: "é" * 200}}), INDEX),
    "index: two shards with the same tensors": (
        _index({"weight_map": {NORM: "part-0.safetensors", "x": "part-1.safetensors"}}, shards=2),
        "part-1.safetensors"),
    "index: without a tensor that is needed": (_listed(lambda name: name != NORM), INDEX),
    "index: a tensor in another shard": (_listed(lambda name: True, norm="part-1.safetensors"), INDEX),
    # the tokenizer next to them
    "tokenizer: settings a list": (_written("tokenizer_config.json", "[1]"), "tokenizer_config.json"),
    "tokenizer: 4 GiB": (_sparse("tokenizer.json", 4 << 30), "tokenizer.json"),
    "tokenizer: template not UTF-8": (_written("chat_template.jinja", b"\xff\xfe{"), "chat_template.jinja"),
}
