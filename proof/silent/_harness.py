"""What the cases share: what is found, engines with tiny models, rows of text, and short runs."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tests.data.making import row
from tests.engines.tiny import request, tiny_shape
from tests.models.chat_templates import CASES as TEMPLATES
from workings.config.data import DataConfig
from workings.config.method import LoraConfig
from workings.data.batches import make_batch
from workings.data.rows import Row, RowSet, build_rows
from workings.data.traces import Trace
from workings.engines.registry import find_engine
from workings.errors import WorkingsError
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate

ENGINES = ("torch", "jax")
LORA = LoraConfig(name="lora", rank=4, alpha=8, target_modules=("q_proj", "v_proj", "down_proj"))
__all__ = ["ENGINES", "LORA", "TEMPLATES", "Found", "Trace", "batch", "gemma", "learned", "opened", "refused",
           "right_if", "rows_of", "short_run", "temporary", "texts"]


class Found(NamedTuple):
    """Outcome of a case."""

    verdict: Literal["right", "refused", "wrong"]
    evidence: str
    """One line."""


def right_if(holds: object, evidence: str) -> Found:
    """`right` if it holds, else `wrong`."""
    return Found("right" if holds else "wrong", evidence)


def refused(action: Callable[[], object], *words: str) -> Found:
    """`refused` if an action is, with these words; `wrong` if it is done, or refused for another reason."""
    try:
        done = action()
    except (WorkingsError, ValueError) as error:
        said = " ".join(str(error).split())
        missing = [word for word in words if word not in said]
        return Found("wrong", f"refused for another reason: {said[:150]}") if missing else Found("refused", said[:150])
    return Found("wrong", f"taken without a word: {str(done)[:100]}")


def opened(engine: str, family: str = "llama", **changes: Any) -> Any:
    """An engine on the CPU with a tiny model of a family, by its name."""
    shape = changes.pop("shape", None) or tiny_shape(family)
    return find_engine(engine).engine.open(request(shape, **changes))


def learned(*counts: int, prompt: int = 3, seed: int = 0) -> list[Row]:
    """Rows of random tokens with this many learned."""
    draw = np.random.default_rng(seed)
    return [row(f"r{number}", draw.integers(1, 60, prompt + count).tolist(), prompt)
            for number, count in enumerate(counts)]


def batch(rows: Sequence[Row | Sequence[Row]], micro: int = 1, length: int = 0) -> Batch:
    """Rows as one update of this many micro batches; a list of rows is packed into one sequence."""
    sequences = [[one] if isinstance(one, Row) else [*one] for one in rows]
    longest = length or max(sum(len(one.tokens) for one in sequence) for sequence in sequences)
    return make_batch(sequences, (micro, len(sequences) // micro), longest, 0)


def rows_of(template: ChatTemplate, *traces: Trace, **keys: Any) -> RowSet:
    """Proved rows of traces with a template."""
    config = DataConfig(traces="x", template=template.name,
                        **({"max_length": 400, "reasoning": "answer_only"} | keys))
    return build_rows(traces, template.tokenizer, template, config)


def texts(template: ChatTemplate, one: Row) -> tuple[str, str]:
    """What is read and what is learned of a row."""
    read, said = (template.tokenizer.decode(one.tokens[one.loss_mask == value].tolist()) for value in (0, 1))
    return read, said


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="silent-") as folder:
        yield Path(folder)


def short_run(engine: str, out: Path, changes: Mapping[str, Any], **keywords: Any) -> Any:
    """A run of the shipped recipe `smoke-tiny` with changed keys, as `workings.train` makes it."""
    import workings

    with redirect_stderr(StringIO()):
        return workings.train("smoke-tiny", out, {"engine": engine, "device": "cpu", "evaluation": {}, **changes},
                              **keywords)


@cache
def gemma() -> ChatTemplate:
    """Gemma's template on a small tokenizer."""
    return TEMPLATES["gemma"][0]()
