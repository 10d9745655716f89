"""How surprising a trained model finds each token of one row that it could have learned: the loss, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.data.batches import fixed_batches
from workings.data.pair_rows import build_pair_rows
from workings.data.preferences import PreferencePair
from workings.data.preview import Piece, entries_by_row, pieces
from workings.data.rows import Row, RowSet, build_rows
from workings.data.traces import Trace, read_traces
from workings.engines.base import LikelihoodEngine
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.record.number_text import percent
from workings.record.waiting import waiting
from workings.reports.surprise_page import ShadedToken, SurprisePage
from workings.runs.data.datasets import find_data
from workings.runs.open_model import open_run
from workings.runs.recorded_paths import recorded_base

SHOWN = 10
"""Tokens that are listed, the most surprising ones."""


@dataclass(frozen=True)
class TokenLoss:
    """One token of a row."""

    piece: Piece
    loss: float | None
    """Natural logarithm of one over its probability; None where the row does not learn it."""

    @property
    def probability(self) -> float:
        """Of a learned token, as the model saw what stands before it."""
        assert self.loss is not None
        return exp(-self.loss)

    def to_json(self) -> dict[str, Any]:
        """For `--json`: without a loss where there is none."""
        return {**vars(self.piece), **({} if self.loss is None else {"loss": self.loss})}


@dataclass(frozen=True, kw_only=True)
class RowLosses:
    """A row, and how surprising a model found it."""

    run: str
    step: int
    """Of the checkpoint that was asked."""
    row: str
    tokens: tuple[TokenLoss, ...]

    @property
    def supervised_tokens(self) -> list[TokenLoss]:
        """The tokens that the loss counts."""
        return [token for token in self.tokens if token.loss is not None]

    @property
    def mean_loss(self) -> float:
        """What an evaluation loss of this row alone would be."""
        return sum(token.loss or 0.0 for token in self.supervised_tokens) / len(self.supervised_tokens)

    def most(self, count: int = SHOWN) -> list[tuple[int, TokenLoss]]:
        """The most surprising tokens with their places, counted from 1; the most surprising one first."""
        learned = [(place, token) for place, token in enumerate(self.tokens, start=1) if token.loss is not None]
        return sorted(learned, key=lambda each: -(each[1].loss or 0.0))[:count]

    def before(self, place: int) -> str:
        """The end of what stands before the token at a place."""
        return "".join(token.piece.text for token in self.tokens[:place - 1])[-24:]

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
        """The row for the page; ``command`` is what was typed for it."""
        place, worst = self.most(1)[0]
        return SurprisePage(
            title=f"{self.row}: what surprises {self.run}", command=command,
            sentence=f"{self.sentence}. The least likely one, with {percent(worst.probability)}, is "
                     f"{worst.piece.text!r} behind {self.before(place)!r}.",
            tokens=[ShadedToken.of(token.piece.text, token.loss) for token in self.tokens])

    def text(self) -> str:
        """The mean, and the most surprising tokens."""
        lines = [self.sentence, "the most surprising ones, each with how likely it was behind what stands before it:"]
        lines += [f"{percent(token.probability):>9}  {token.piece.text!r} behind {self.before(place)!r}"
                  for place, token in self.most()]
        return "\n".join(lines)


def token_losses(run: Path, row: str = "", *, traces: Path | None = None) -> RowLosses:
    """Ask a run's last checkpoint how likely it finds every learned token of one row.

    Args:
        run: a sealed run directory.
        row: id of a trace, or of one side of a pair (`ID/chosen`); by default the first one.
        traces: another file of traces than the run's own.

    Raises:
        RequestError: no sealed run, no such row, or an engine that says no log probabilities.
        RecordError: the run has no intact checkpoint.
    """
    with waiting("opening the model"):
        opened = open_run(run)
    session, engine = opened.session, opened.session.engine
    if not isinstance(engine, LikelihoodEngine):
        raise RequestError(f"engine {opened.recipe.engine}, which says no log probabilities", "engine jax or torch",
                           "workings train RUN/config/recipe.yaml engine=jax")
    loaded = LoadedRecipe(recipe=opened.recipe, text="", origin=str(run), base=recorded_base(opened.run), overrides=())
    rows = _rows(loaded, session, row, traces)
    with waiting("asking the model"):
        batch = fixed_batches(rows, engine.describe().mesh.get("fsdp", 1), opened.recipe.data)[0]
        said = engine.log_probs(session.state, batch)[0, 0]
    shown: Row = rows.rows[0]
    # What a position says is about the token behind it.
    losses = [None, *(-float(value) for value in said[:len(shown.tokens) - 1])]
    return RowLosses(run=opened.run.path.resolve().name, step=opened.checkpoint.step, row=shown.id, tokens=tuple(
        TokenLoss(piece, loss if piece.learned else None)
        for piece, loss in zip(pieces(shown, session.tokenizer), losses, strict=True)))


def _rows(loaded: LoadedRecipe, session: ModelSession, row: str, traces: Path | None) -> RowSet:
    """The one row that is asked for, as the run would have made it."""
    if traces is not None:
        entries: Sequence[Trace | PreferencePair] = read_traces(traces)
    else:
        data = find_data(loaded)
        entries = data.pairs or data.traces
    known = entries_by_row(entries)
    if not known or row not in {"", *known}:
        raise RequestError(f"--row {row}" if row else "a run without traces",
                           f"the id of a row, such as {', '.join([*known][:3])}" if known else "a file of traces",
                           "leave --row out for the first one" if known else "--traces FILE")
    entry = known[row or next(iter(known))]
    made = (build_pair_rows([entry], session.tokenizer, session.template, loaded.recipe.data).rows
            if isinstance(entry, PreferencePair) else
            build_rows([entry], session.tokenizer, session.template, loaded.recipe.data))
    return replace(made, rows=[each for each in made.rows if not row or each.id == row][:1])
