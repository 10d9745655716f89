"""Levels 1 and 2: of a run that distilled on traces, what its teacher said, and what the log says of it.

No weights are needed. That the teacher said so takes them: a replay asks it again.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from workings.errors import RecordError
from workings.evidence.verify.checks import check, each_run, judged
from workings.evidence.verify.data_order import batches_of, kept_rows, planned_steps, too_many_sequences
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tensors import read_header
from workings.record.layout import MODEL_SHAPE, TOP_TOKENS, top_tokens_file

if TYPE_CHECKING:
    from workings.data.top_tokens import TopTokensOfRow

CLOSE = 1e-4
"""Difference that a sum of float32 probabilities, or a mean of them in the log, may have."""


@check("consistency.top_tokens", level=1, title="the teacher's top tokens are a distribution, for every learned row",
       example="two probabilities of a position that are larger than 1 together")
def top_tokens(record: Record) -> Iterator[CheckFinding]:
    """As many positions as the planned rows learn; different tokens of the vocabulary, in order; sums of at most 1."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        import numpy as np
        if not unit.metrics and not unit.has(top_tokens_file(0)):  # it ended before the teacher was asked
            return
        said, vocabulary, problems, positions = _said(unit), unit.json(MODEL_SHAPE)["vocab_size"], [], 0
        files = {name for name in unit.files if name.startswith(TOP_TOKENS + "/")}
        if more := sorted(files - {top_tokens_file(number) for number in range(len(_parts(unit)))}):
            problems.append(f"{more[0]}: no batch belongs to it")
        for name, row in said.items():
            tokens, log_probs = row.tokens_NK, row.log_probs_NK.astype(np.float64)
            positions += len(tokens)
            ordered = np.sort(tokens, -1)
            wrong = {
                "a token that is none": ((tokens < 0) | (tokens >= vocabulary)).any(),
                "a token twice": (ordered[:, 1:] == ordered[:, :-1]).any(),
                "not the most likely one first": (log_probs[:, 1:] > log_probs[:, :-1]).any(),
                "probabilities above 1": (np.exp(log_probs).sum(-1) > 1 + CLOSE).any()}
            problems += [f"row {name[:60]!r}: {what}" for what, is_so in wrong.items() if is_so]
        yield judged(problems, f"{positions:,} positions of {len(said):,} rows", unit)
    return _each(record, find)


@check("recompute.top_tokens", level=2, title="the log's teacher is the one that was recorded",
       example="another mass of the teacher's top tokens in a step's line")
def logged_teacher(record: Record) -> Iterator[CheckFinding]:
    """Mean probability of the top tokens and mean entropy of each step again; no divergence is below 0."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        import numpy as np

        from workings.objectives.top_tokens import LEAST_REST
        said, batches, problems = _said(unit) if unit.metrics else {}, batches_of(unit), []
        for line, planned in planned_steps(unit):
            names = [name for sequence in batches.row_ids(planned.at) for name in sequence]
            if missing := [name for name in names if name not in said]:
                problems.append(f"step {line.get('step')}: nothing was said of {missing[0][:60]!r}")
                continue
            log_probs = np.concatenate([said[name].log_probs_NK for name in names]).astype(np.float64)
            mass = np.exp(log_probs).sum(-1)
            rest = np.clip(1 - mass, LEAST_REST, 1)
            entropy = -(np.exp(log_probs) * log_probs).sum(-1) - rest * np.log(rest)
            for key, value in (("teacher_mass", mass.mean()), ("teacher_entropy", entropy.mean())):
                given = line.get(key)
                if not isinstance(given, float | int) or not abs(given - value) <= CLOSE * (1 + abs(value)):
                    problems.append(f"step {line.get('step')}: {key} {str(given)[:20]}, the teacher's is {value:.6g}")
            loss = line.get("loss")
            if isinstance(loss, float | int) and loss < -CLOSE:
                problems.append(f"step {line.get('step')}: loss {loss:g}, and no divergence is below 0")
        yield judged(problems, f"{len(unit.metrics)} steps", unit)
    return _each(record, find)


def _each(record: Record, find: Callable[[Unit], Iterator[CheckFinding]]) -> Iterator[CheckFinding]:
    def of_taught(unit: Unit) -> Iterator[CheckFinding]:
        if not distills_traces(unit):
            return
        if (many := too_many_sequences(unit)) is not None:
            yield many
        else:
            yield from find(unit)

    return each_run(record, of_taught)


def distills_traces(unit: Unit) -> bool:
    """Whether a run says that it distilled on traces."""
    algorithm = unit.manifest.config_snapshot.get("algorithm")
    return isinstance(algorithm, dict) and algorithm.get("name") == "distill_traces"


def _parts(unit: Unit) -> list[range]:
    from workings.data.top_tokens import parts_of
    return parts_of(batches_of(unit), unit.manifest.planned_steps)


def _said(unit: Unit) -> "dict[str, TopTokensOfRow]":
    return unit.once("top tokens", lambda: _read(unit))


def _read(unit: Unit) -> "dict[str, TopTokensOfRow]":
    from workings.data.top_tokens import from_bytes, row_ids_of
    count = unit.manifest.config_snapshot["algorithm"].get("top_k")
    if type(count) is not int:
        raise RecordError("config_snapshot: algorithm.top_k is no count")
    counts = {row["id"]: int(row["supervised_tokens"]) for row in kept_rows(unit)}
    said: dict[str, TopTokensOfRow] = {}
    for number, part in enumerate(_parts(unit)):
        name = top_tokens_file(number)
        read_header(unit, name)  # nothing but tensors stands in it, and no gap between them
        rows = {row: counts[row] for row in row_ids_of(batches_of(unit), part)}
        said |= from_bytes(unit.read(name), rows, count)
    return said
