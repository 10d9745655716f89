"""Level 1: the tensors of a checkpoint are those of the model, method, number formats and optimizer that are named.

Only the headers of files are read (https://huggingface.co/docs/safetensors#format), and the optimizer's count of steps:
gigabytes of weights stay on the disk.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from workings.config.families import FAMILIES
from workings.config.method import FULL, FullConfig, LoraConfig, MethodConfig, QloraConfig
from workings.config.training import OptimizerConfig, PrecisionConfig
from workings.errors import RecordError
from workings.evidence.verify.record import Unit, computed_once, section_of
from workings.evidence.verify.registry import Found, check, join_first, not_checked, require_train
from workings.evidence.verify.result import NotChecked
from workings.evidence.verify.tree import shown
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shards import join_slices, shard_files
from workings.models.weights import PEFT_PREFIX, is_frozen, layer_shapes, parameter_count, tensor_shapes
from workings.record.canonical import loads
from workings.record.layout import CONFIG, MODEL_SHAPE
from workings.record.storage import parsed_bytes
from workings.record.values import Absent

# The header is read into memory before its claims can be checked, so it has a separate limit.
MAX_HEADER_BYTES = 16 << 20
MAX_NAME_CHARS = 200
FORMATS = {"parameters", "compute", "moments", "gradients", "accumulator"}
"""Parts of a run with number formats recorded by our engines."""
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16, "U8": 8,
        "I8": 8, "BOOL": 8}
"""Bits of one number, by the names of safetensors."""
LONG_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "U8": "uint8", "I8": "int8"}
"""Names of these formats in a manifest."""
CODES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16", "uint8": "U8"}
"""Codes of the formats in a recipe."""
# Written by this package and by the library itself; anything else in a header is a place to hide something.
METADATA: tuple[dict[str, str], ...] = ({}, {"format": "pt"}, {"format": "np"}, {"format": "flax"}, {"format": "tf"})
WEIGHTS, ADAPTERS, OPTIMIZER = "model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"
MASTER, STEP = "master", "step"
MAX_LAYERS, MAX_SIZE = 10_000, 1 << 40
_Shapes = dict[str, tuple[int, ...]]


class StoredTensor(NamedTuple):
    """A tensor in a file, as its header describes it."""

    format: str
    """Name of the number format in safetensors, a key of `BITS`."""
    shape: tuple[int, ...]
    offset: int = -1
    """First byte, counted from the beginning of the file; -1 for a tensor whose slices are in several files."""


_Tensors = dict[str, StoredTensor]


def read_header(unit: Unit, name: str) -> _Tensors:
    """Tensors of a safetensors file by name, cached. Raises `RecordError` if it is none, or has hidden content."""
    return unit.cached(name, lambda: _header(unit, name))


def _header(unit: Unit, name: str) -> _Tensors:
    size = unit.files[name].size if name in unit.files else 0
    with unit.open(name) as stream:
        # A safetensors file begins with the length of its header: eight bytes, the lowest first.
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
        # Tested before it is read: a header may claim a petabyte, and `read` would try to make room for it.
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise RecordError(f"{shown(name)}: not a safetensors file (header of {length} bytes)")
        text = stream.read(length)
    unit.tree.cache.reserve(parsed_bytes(text) + 6 * length)
    try:
        return _parsed(loads(text), text, 8 + length, size)
    except (RecordError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{shown(name)}: not a safetensors file ({str(error)[:80]})") from None


def _parsed(value: dict[str, Any], text: bytes, begin: int, size: int) -> _Tensors:
    """The tensors in a header, which have to fill the file without gaps; the header must hold nothing else.

    ``value``: the header as JSON; ``text``: its bytes; ``begin``: first byte after it; ``size``: bytes of the file.
    """
    metadata = value.get("__metadata__", {})
    entries = {name: entry for name, entry in value.items() if name != "__metadata__"}
    if metadata not in METADATA:
        raise ValueError("its header holds more than tensors")
    # Spaces that JSON ignores could hide a text as well as a name could; up to seven of them align the tensors.
    forms = [json.dumps(value, separators=marks, ensure_ascii=escaped).encode()
             for marks in ((",", ":"), (", ", ": ")) for escaped in (True, False)]
    if text.rstrip(b" ") not in forms or len(text) - len(text.rstrip(b" ")) > 7:
        raise ValueError("its header is not what its tensors need")
    at = 0
    # Without gaps there is no place for a pickle or a program after the tensors.
    for entry in sorted(entries.values(), key=lambda entry: tuple(entry["data_offsets"])):
        first, last = entry["data_offsets"]
        if first != at or last < first:
            raise ValueError("tensors overlap or leave gaps")
        at = last
    if at != size - begin:
        raise ValueError(f"tensors end at {at}, the file at {size - begin}")
    for name, entry in entries.items():
        if set(entry) != {"dtype", "shape", "data_offsets"} or len(name) > MAX_NAME_CHARS:
            raise ValueError(f"{name[:40]}: more than type, shape and place")
        first, last = entry["data_offsets"]
        if any(type(side) is not int or side < 0 for side in entry["shape"]):
            raise ValueError(f"{name[:40]}: an invalid shape")
        if (last - first) * 8 != prod(entry["shape"]) * BITS[entry["dtype"]]:
            raise ValueError(f"{name[:40]}: {last - first} bytes are not {entry['shape']} of {entry['dtype']}")
    return {name: StoredTensor(entry["dtype"], tuple(entry["shape"]), begin + entry["data_offsets"][0])
            for name, entry in entries.items()}


def _formats(tensors: Iterable[StoredTensor], more: frozenset[str] = frozenset()) -> str:
    """Number formats of tensors, and ``more`` formats, as a manifest writes them: `float32 and uint8`."""
    return " and ".join(sorted({LONG_NAMES.get(tensor.format, tensor.format) for tensor in tensors} | more))


@check("consistency.tensors")
def model(unit: Unit) -> Found:
    """Number of parameters in the manifest; sizes, source and number formats in the recipe."""
    shape = recorded_shape(unit)
    manifest, count, section = unit.manifest, parameter_count(shape), unit.section("model")
    if count != manifest.parameters:
        yield f"{MODEL_SHAPE} gives {count:,} parameters, the manifest {manifest.parameters:,}"
    sizes, source = {**shape.to_json(), "verified": shape.verified}, section.get("source")
    in_recipe = section_of(section, "shape") | ({"verified": section["verified"]} if "verified" in section else {})
    for key, value in in_recipe.items():
        if sizes.get(key, value) != value and (key != "family" or source == "scratch"):
            yield f"the recipe's model has {key} {str(value)[:20]}, {MODEL_SHAPE} {str(sizes.get(key))[:20]}"
    if source == "scratch" and not isinstance(manifest.weight_digests, Absent):
        yield f"random weights, and {len(manifest.weight_digests)} files of weights"
    if unit.engine_is_ours:
        yield from _source_problems(unit, section)
        yield from _precision_problems(unit)
    return f"{shape.family}, {count:,} parameters"


@check("consistency.tensors")
def tensors(unit: Unit) -> Found:
    """Names, shapes and formats of weights and moments; the optimizer's own count of steps."""
    expected = expected_tensors(unit)
    files, elsewhere = 0, 0
    for folder in unit.checkpoints.values():
        for file in (expected.file, OPTIMIZER):
            parts = expected.files_of(unit, folder, file)
            missing = [part for part in parts if not unit.has(part)]
            if any(part in unit.external_files for part in parts):
                elsewhere += len(parts)
            elif missing:
                yield f"{missing[0]} is missing"
            else:
                files += len(parts)
                yield from expected.problems(unit, f"{folder}/{file}", parts)
    if elsewhere:
        return not_checked(f"{elsewhere} files of tensors are named by digest", blocking=False)
    return f"{len(expected.weights)} tensors each in {files} files"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The tensors that a checkpoint must have."""

    file: str
    """Name of the file that holds ``weights``."""
    weights: _Shapes
    moments: _Tensors
    """Tensors of the optimizer, without their places in the file."""
    trained: frozenset[str]
    """Names of those ``weights`` that are trained."""
    frozen: tuple[frozenset[str], ...]
    """Sets of formats that the frozen weights under adapters may have, one set for each engine's name of four bits."""
    stored: str
    """Name in safetensors of the format that weights are stored in; adapters are in float32."""
    sharded: bool
    """Whether each process wrote its own files (`workings.models.shards`)."""

    def exact_bytes(self, parameters: int) -> dict[str, int]:
        """Bytes of ``parameters`` (a whole model of this size, and its adapters) and of ``moments`` on one device.

        Without ``parameters`` for four-bit weights, whose size the recipe does not decide.
        """
        # Float32 masters are copies of the weights and no moments; a plan counts them separately.
        moments = sum(prod(moment.shape) * BITS[moment.format] // 8 for name, moment in self.moments.items()
                      if not name.startswith(f"{MASTER}."))
        if any("uint8" in formats for formats in self.frozen):
            return {"moments": moments}
        adapters = sum(map(prod, self.weights.values())) * BITS["F32"] // 8 if self.file == ADAPTERS else 0
        return {"parameters": parameters * BITS[self.stored] // 8 + adapters, "moments": moments}

    def files_of(self, unit: Unit, folder: str, file: str) -> list[str]:
        """Paths of a file of a checkpoint, or of its shards."""
        if not self.sharded:
            return [f"{folder}/{file}"]
        names = [name.rpartition("/")[2] for name in {*unit.files, *unit.external_files}
                 if name.startswith(f"{folder}/")]
        return [f"{folder}/{name}" for name in shard_files(names, file)]

    def problems(self, unit: Unit, name: str, parts: list[str]) -> list[str]:
        """Problems of the file of weights or of the optimizer's; ``parts``: its shards, or the file itself."""
        tensors = _join_shards(unit, parts) if self.sharded else read_header(unit, name)
        if name.endswith("/" + self.file):
            return _differing(name, tensors, self.weights) or _format_problems(
                unit, name, self._weight_formats(unit, tensors))
        return self._optimizer_problems(unit, name, parts, tensors)

    def _optimizer_problems(self, unit: Unit, name: str, parts: list[str], tensors: _Tensors) -> list[str]:
        shapes = {STEP: (), **{moment: expected.shape for moment, expected in self.moments.items()}}
        if problems := _differing(name, tensors, shapes):
            return problems
        problems = [f"{name}: {moment[:60]} is {tensors[moment].format}, expected {expected.format}"
                    for moment, expected in self.moments.items() if tensors[moment].format != expected.format]
        problems += _step_problems(unit, next(part for part in parts if STEP in read_header(unit, part)))
        return problems + _format_problems(
            unit, name, {"moments": _formats(tensors[moment] for moment in self.moments)})

    def _weight_formats(self, unit: Unit, tensors: _Tensors) -> dict[str, str]:
        """Number formats that the manifest must name, by part, according to the file of weights."""
        # Gradients and their sums are made in the format of the weights that they belong to.
        of_trained = _formats(tensors[name] for name in self.trained)
        # The weights below adapters are in no checkpoint; their formats follow from the recipe.
        allowed = [_formats(tensors.values(), below) for below in self.frozen or (frozenset(),)]
        recorded = unit.manifest.actual_dtypes.get("parameters")
        return {"gradients": of_trained, "accumulator": of_trained,
                "parameters": recorded if recorded in allowed else allowed[0]}


def _format_problems(unit: Unit, name: str, formats: Mapping[str, str]) -> list[str]:
    recorded = unit.manifest.actual_dtypes
    return [f"{name}: {part} are {code}, the manifest says {str(recorded[part])[:40]}"
            for part, code in formats.items() if recorded.get(part, code) != code]


def _differing(name: str, tensors: _Tensors, expected: _Shapes) -> list[str]:
    missing, extra = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    problems = [f"{name} lacks {join_first(missing)}"] if missing else []
    problems += [f"{name} holds {join_first([shown(tensor) for tensor in extra])}"] if extra else []
    return problems + [f"{name}: {shown(tensor)} is {list(tensors[tensor].shape)}, the model's is {list(shape)}"
                       for tensor, shape in expected.items() if tensor in tensors and tensors[tensor].shape != shape]


def _join_shards(unit: Unit, parts: list[str]) -> _Tensors:
    """The tensors that the slices in shards make up."""
    slices = ((shown(part), key, stored.format, stored.shape)
              for part in parts for key, stored in read_header(unit, part).items())
    return {name: StoredTensor(tensor.format, tensor.shape) for name, tensor in join_slices(slices).items()}


def _step_problems(unit: Unit, name: str) -> list[str]:
    step = read_header(unit, name)[STEP]
    with unit.open(name) as stream:
        stream.seek(step.offset)
        count = int.from_bytes(stream.read(BITS[step.format] // 8), "little")
    return [] if unit.checkpoints.get(count) == name.rpartition("/")[0] else [
        f"{name}: its optimizer has taken {count} steps"]


@computed_once("shape")
def recorded_shape(unit: Unit) -> ModelShape:
    """The shape of a run's model. Raises `NotChecked` where it cannot be used, and `RecordError` for an invalid one."""
    require_train(unit)
    value = unit.json_object(MODEL_SHAPE)
    if "config" in value or value.get("family") not in FAMILIES:
        # A run of one of our families is checked: no record may escape that by calling itself another one.
        asked = section_of(unit.section("model"), "shape").get("family")
        if asked in FAMILIES or not isinstance(value.get("family"), str):
            raise RecordError(f"{MODEL_SHAPE}: no shape of a family, and the recipe asks for {str(asked)[:40]!r}")
        # A family of another package would be imported for its name, which a stranger may have written.
        raise NotChecked(f"{MODEL_SHAPE} is of no family of this project", blocking=False)
    known = {field.name: field.type for field in fields(ModelShape)}
    unknown = sorted(value.keys() - known.keys())
    if unknown and unit.written_by_this_version:
        raise RecordError(f"{MODEL_SHAPE} has {unknown[0][:40]!r}, which this version does not write")
    if unknown:
        raise NotChecked(f"{MODEL_SHAPE} has {unknown[0][:40]!r}, which this version does not know", blocking=False)
    # Before `tensor_shapes`, which makes an entry for every layer.
    too_large = [key for key, size in value.items() if isinstance(size, int | float) and not 0 <= size <= MAX_SIZE]
    wrong_type = [key for key, size in value.items() if isinstance(size, bool) is not (known[key] in (bool, "bool"))]
    if too_large or wrong_type or type(value.get("layers")) is not int or value["layers"] > MAX_LAYERS:
        raise RecordError(f"{MODEL_SHAPE}: sizes that no model has")
    shape = ModelShape(**value)
    tensor_shapes(shape)  # an error for sizes that do not fit each other
    return shape


def expected_tensors(unit: Unit) -> Expected:
    """The tensors of each checkpoint of a run. Raises `NotChecked` if unknown, and `RecordError` for a bad recipe."""
    shape, recipe = recorded_shape(unit), unit.manifest.config
    if not unit.engine_is_ours:
        raise NotChecked("an engine from elsewhere: what its checkpoints hold is that package's word", blocking=False)
    method: Any = TypeAdapter(MethodConfig).validate_python(recipe.get("method", FULL))
    optimizer: Any = TypeAdapter(OptimizerConfig).validate_python(recipe.get("optimizer"))
    precision = PrecisionConfig.model_validate(recipe.get("precision"))
    is_full = isinstance(method, FullConfig)
    weights = tensor_shapes(shape) if is_full else _adapter_shapes(method, shape)
    trained = {name: size for name, size in weights.items() if not (is_full and is_frozen(name, shape))}
    inside = (family_of(shape).layer_prefix + ".", PEFT_PREFIX)
    moments: _Tensors = {}
    for name, size in trained.items():
        made = optimizer.moment_shapes(size, moments=precision.moments, in_layer=name.startswith(inside))
        moments |= {f"{slot}.{name}": StoredTensor(CODES[number], tuple(side)) for slot, (side, number) in made.items()}
        if precision.rounding == "master_fp32":
            moments[f"{MASTER}.{name}"] = StoredTensor("F32", size)
    stored = LONG_NAMES[CODES[precision.parameters]]
    below = {"lora": (frozenset({stored}),),
             "qlora": tuple(frozenset({stored, four_bits}) for four_bits in ("uint8", "nf4"))}
    return Expected(file=WEIGHTS if is_full else ADAPTERS, weights=weights, moments=moments,
                    trained=frozenset(trained), frozen=below.get(method.name, ()), stored=CODES[precision.parameters],
                    sharded=unit.section("checkpoint").get("sharded") is True)


def _adapter_shapes(method: LoraConfig | QloraConfig, shape: ModelShape) -> _Shapes:
    family = family_of(shape)
    # peft's names of layers with another prefix are not worked out here.
    if family.layer_prefix != "model.layers":
        raise NotChecked(f"adapters of a {shape.family} model are named in transformers' own way", blocking=False)
    module_names = {name.rpartition(".")[2]: name for name in family_of(shape).projections}
    if unknown := [name for name in method.target_modules if name not in module_names]:
        raise RecordError(f"{CONFIG}: {shape.family} has no projection {unknown[0][:40]!r}")
    adapter_shapes: _Shapes = {}
    for layer in range(shape.layers):
        shapes = layer_shapes(shape, layer)
        for target in (module_names[name] for name in method.target_modules):
            if f"{target}.weight" not in shapes:
                continue  # a layer of another kind
            out, inner = shapes[f"{target}.weight"]
            name = f"{PEFT_PREFIX}{family.layer_prefix}.{layer}.{target}"
            # peft's shapes: A maps the input to the rank, B the rank to the output.
            adapter_shapes[f"{name}.lora_A.weight"] = (method.rank, inner)
            adapter_shapes[f"{name}.lora_B.weight"] = (out, method.rank)
    return adapter_shapes


def _precision_problems(unit: Unit) -> Iterator[str]:
    """Problems of the number formats that were used, by their names and by the recipe's format of the computation."""
    used, precision = unit.manifest.actual_dtypes, unit.section("precision")
    if not precision:
        return
    yield from (f"actual_dtypes has {shown(part)!r}, which no engine of this project names"
                for part in sorted(used.keys() - FORMATS))
    compute = LONG_NAMES.get(CODES.get(str(precision.get("compute")), ""), "")
    if used.get("compute", compute) != compute:
        yield f"computed in {used['compute'][:20]!r}, the recipe asks for {compute!r}"


def _source_problems(unit: Unit, section: dict[str, Any]) -> Iterator[str]:
    """Problems of the weights' name and revision: the recipe's id, or a shape with random weights."""
    manifest, source, shape = unit.manifest, section.get("source"), section.get("shape")
    if source not in ("pretrained", "scratch"):
        return
    if source == "pretrained":
        name = section.get("id")
    else:  # a model from scratch has no repository: its name tells its size or its family
        name = f"scratch:{shape.get('family')}" if isinstance(shape, dict) else shape
    if name not in (None, manifest.model_id):
        yield f"the recipe's weights are {str(name)[:60]!r}, the manifest's {manifest.model_id[:60]!r}"
    if isinstance(manifest.model_revision, Absent) is not (source == "scratch"):
        yield f"model.source is {source}, and model_revision is {str(manifest.model_revision)[:40]!r}"
