"""Loss of a trained model on each token of one row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.data.batches import fixed_batches
from workings.data.preferences import PreferencePair
from workings.data.preview import Piece, entries_by_row, pieces
from workings.data.rows import Row, RowSet, build_rows
from workings.data.traces import Trace, read_traces
from workings.data.verdicts import Verdict
from workings.engines.base import LikelihoodEngine
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.inputs.datasets import find_data
from workings.inputs.recorded_paths import recorded_base
from workings.record.number_text import percent
from workings.record.progress import slow_operation
from workings.reports.surprise_page import ShadedToken, SurprisePage
from workings.runs.open_model import open_run
from workings.ways.base import way_of

MAX_TOKENS_SHOWN = 10
"""Tokens that are listed, those with the largest loss."""


@dataclass(frozen=True)
class TokenLoss:
    """One token of a row."""

    piece: Piece
    loss: float | None
    """Negative log probability in nats; None for a token that is not trained on."""

    @property
    def probability(self) -> float:
        """Probability of a trained token, given the tokens before it."""
        assert self.loss is not None
        return exp(-self.loss)

    def to_json(self) -> dict[str, Any]:
        """The token in `--json`, without a loss if none exists."""
        return {**vars(self.piece), **({} if self.loss is None else {"loss": self.loss})}


@dataclass(frozen=True, kw_only=True)
class RowLosses:
    """The losses of a model on the tokens of a row."""

    run: str
    step: int
    """Step of the checkpoint."""
    row: str
    tokens: tuple[TokenLoss, ...]

    @property
    def supervised_tokens(self) -> list[TokenLoss]:
        """The tokens that count in the loss."""
        return [token for token in self.tokens if token.loss is not None]

    @property
    def mean_loss(self) -> float:
        """The evaluation loss of this row alone."""
        return sum(token.loss or 0.0 for token in self.supervised_tokens) / len(self.supervised_tokens)

    def largest(self, count: int = MAX_TOKENS_SHOWN) -> list[tuple[int, TokenLoss]]:
        """The tokens with the largest losses and their numbers from 1, the largest first."""
        numbered = [(number, token) for number, token in enumerate(self.tokens, start=1) if token.loss is not None]
        # A stable sort: of equal losses the first in the text.
        return sorted(numbered, key=lambda pair: -(pair[1].loss or 0.0))[:count]

    def before(self, number: int) -> str:
        """The end of the text before a token, by its number."""
        return "".join(token.piece.text for token in self.tokens[:number - 1])[-24:]

    @property
    def sentence(self) -> str:
        """Which row and model, and the mean."""
        return (f"{self.row}: {len(self.supervised_tokens)} learned tokens of {len(self.tokens)}, "
                f"mean loss {self.mean_loss:.3f} by {self.run} after step {self.step:,}")

    def to_json(self) -> dict[str, Any]:
        """Keys of `data surprise --json`."""
        return {"run": self.run, "step": self.step, "row": self.row, "mean_loss": self.mean_loss,
                "tokens": [token.to_json() for token in self.tokens]}

    def page(self, command: str) -> SurprisePage:
        """The row for the page; ``command``: the command that made it."""
        number, worst = self.largest(1)[0]
        return SurprisePage(
            title=f"{self.row}: what surprises {self.run}", command=command,
            sentence=f"{self.sentence}. The least likely one, with {percent(worst.probability)}, is "
                     f"{worst.piece.text!r} behind {self.before(number)!r}.",
            tokens=[ShadedToken.from_loss(token.piece.text, token.loss) for token in self.tokens])

    def text(self) -> str:
        """The mean, and the tokens with the largest losses."""
        lines = [self.sentence, "the most surprising ones, each with how likely it was behind what comes before it:"]
        lines += [f"{percent(token.probability):>9}  {token.piece.text!r} behind {self.before(number)!r}"
                  for number, token in self.largest()]
        return "\n".join(lines)


def token_losses(run: Path, row: str = "", *, traces: Path | None = None) -> RowLosses:
    """Computes the loss of a run's last checkpoint on every trained token of one row.

    Args:
        run: a sealed run directory.
        row: id of a trace, or of one side of a pair (`ID/chosen`); by default the first one.
        traces: another file of traces than the run's own.

    Raises:
        RequestError: no sealed run, no such row, or an engine without log probabilities.
        RecordError: the run has no intact checkpoint.
    """
    with slow_operation("opening the model"):
        opened = open_run(run)
    session, engine = opened.session, opened.session.engine
    if not isinstance(engine, LikelihoodEngine):
        raise RequestError(f"engine {opened.recipe.engine}, which computes no log probabilities", "engine jax or torch",
                           "workings train RUN/config/recipe.yaml engine=jax")
    loaded = LoadedRecipe(recipe=opened.recipe, text="", origin=str(run), base=recorded_base(opened.run), overrides=())
    rows = _rows(loaded, session, row, traces)
    with slow_operation("asking the model"):
        # Padded to the mesh, because a program takes as many rows as it has devices.
        batch = fixed_batches(rows, engine.describe().mesh.get("fsdp", 1), opened.recipe.data)[0]
        log_probs = engine.log_probs(session.state, batch)[0, 0]
    shown: Row = rows.rows[0]
    # A position's log probability is that of the next token.
    losses = [None, *(-float(value) for value in log_probs[:len(shown.tokens) - 1])]
    return RowLosses(run=opened.run.path.resolve().name, step=opened.checkpoint.step, row=shown.id, tokens=tuple(
        TokenLoss(piece, loss if piece.learned else None)
        for piece, loss in zip(pieces(shown, session.tokenizer), losses, strict=True)))


def _rows(loaded: LoadedRecipe, session: ModelSession, row: str, traces: Path | None) -> RowSet:
    """The requested row, as the run would have made it."""
    if traces is not None:
        entries: Sequence[Trace | PreferencePair | Verdict] = read_traces(traces)
    else:
        entries = find_data(loaded).examples
    entry_of_row = entries_by_row(entries)
    if not entry_of_row or row not in {"", *entry_of_row}:
        raise RequestError(f"--row {row}" if row else "a run without traces",
                           f"the id of a row, such as {', '.join([*entry_of_row][:3])}" if entry_of_row
                           else "a file of traces",
                           "leave --row out for the first one" if entry_of_row else "--traces FILE")
    entry = entry_of_row[row or next(iter(entry_of_row))]
    # A row is built alone, so that no other one of the file can be refused on the way.
    settings = session.tokenizer, session.template, loaded.recipe.data
    # Next to a verdict there is a completion of another prompt.
    row_set = (build_rows([entry], *settings) if isinstance(entry, Trace) else
               way_of(loaded.recipe).build_rows(entries if isinstance(entry, Verdict) else [entry], *settings))
    return replace(row_set, rows=[built for built in row_set.rows if not row or built.id == row][:1])
