"""Imported files, tokenizers, rows and batches made for a test."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, trainers

from workings.config.data import DataConfig
from workings.data.batches import Batches
from workings.data.importing.formats import FORMATS
from workings.data.importing.run import ImportRequest, ImportResult, import_records
from workings.data.importing.sources import open_file
from workings.data.preferences import read_pairs, read_verdicts
from workings.data.row_fields import path_beside
from workings.data.rows import Row, RowSet, prompt_digest
from workings.data.traces import Trace, read_traces
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer


def config(**keys: object) -> DataConfig:
    """The data section of a recipe."""
    return DataConfig(traces="traces.jsonl", **({"max_length": 48} | keys))


def row(row_id: str, tokens: list[int], prompt: int) -> Row:
    """A row of these tokens; the first few are the prompt."""
    mask = np.array([0] * prompt + [1] * (len(tokens) - prompt), np.uint8)
    return Row(row_id, np.array(tokens, np.int32), mask, prompt_digest(row_id))


def row_set(lengths: list[int], max_length: int = 16) -> RowSet:
    """Rows of these lengths with a prompt of two tokens each."""
    return RowSet(tuple(row(f"r{number}", list(range(1, length + 1)), 2) for number, length in enumerate(lengths)),
                  (), 0, max_length)


def batches(lengths: list[int], b: int, a: int = 1, **keys: object) -> Batches:
    """Batches over rows of these lengths."""
    return Batches(row_set(lengths), seed=4, rows_per_micro_batch=b, accumulation=a,
                   data_config=config(**({"max_length": 16} | keys)))


def imported_file(path: Path, kind: str, **keys: Any) -> tuple[ImportResult, list[Any]]:
    """Import a file into `out.jsonl` next to it: what was counted, and the entries that were written."""
    result = import_records(open_file(path), path.with_name("out.jsonl"), ImportRequest(**(
        {"format": kind, "labels": {}, "force": True, "on_error": "skip"} | keys)))
    read: Any = {"pairs": read_pairs, "verdicts": read_verdicts}.get(FORMATS[result.format].gives, read_traces)
    return result, (read(result.out) if result.written else [])


def imported(tmp_path: Path, kind: str, *records: Any, **keys: Any) -> tuple[ImportResult, list[Any]]:
    """Import records, as of `imported_file`."""
    (tmp_path / "file.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return imported_file(tmp_path / "file.jsonl", kind, **keys)


def rejection(tmp_path: Path, kind: str, record: Any, **keys: Any) -> str:
    """Why a record is rejected."""
    result, _ = imported(tmp_path, kind, record, **keys)
    assert result.written == 0, record
    return str(json.loads(path_beside(result.out, "rejects.jsonl").read_text())["reason"])


def metaspace_tokenizer(texts: Iterable[str], special: Mapping[str, str]) -> Tokenizer:
    """As Llama 2 and Mistral have it: a space in front of every text, which decoding takes away; by `special` token."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    backend.train_from_iterator([*texts] * 9, trainers.BpeTrainer(
        vocab_size=400, special_tokens=[*dict.fromkeys(special.values())],
        initial_alphabet=list("0123456789+=?#\n▁"), show_progress=False))
    return Tokenizer(backend, special)


def tokenizer_for(traces: Iterable[Trace], vocab_size: int) -> Tokenizer:
    """A tokenizer trained on prompts, steps and answers; the same for every rendering of the same traces.

    Raises:
        RequestError: when ``vocab_size`` is too small for what is always there.
    """
    return train_tokenizer((text for trace in traces for text in (trace.prompt, *trace.steps, trace.answer)),
                           vocab_size)
