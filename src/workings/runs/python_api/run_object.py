"""`Run`, the object that `workings.train` returns: results, curve and scorecard, questions, further evaluations."""

from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.config.load import check_recipe
from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import settings_of
from workings.evidence.verify import Verification, verify
from workings.record import reader
from workings.record.layout import RECIPE, RECIPE_EVALUATION
from workings.record.number_text import percent
from workings.reports.gather import train_again, view_run
from workings.reports.html import render_report, report_views
from workings.runs.evaluate import Question, ask, evaluate_run, free_unit
from workings.runs.python_api.given import Rows, items_file

if TYPE_CHECKING:
    from workings.runs.train_and_evaluate import TrainAndEvaluateResult

HEIGHT = 720
"""Height in pixels of the page in a notebook."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A finished run, as `train` returns it or `Run.open` opens it. A notebook shows its report."""

    path: Path
    result: "TrainAndEvaluateResult | None" = None
    """Result of `train`; None for an opened run."""

    @classmethod
    def open(cls, path: "str | Path | Run") -> "Run":
        """Opens a finished run.

        Raises:
            RequestError: there is no sealed run at ``path``.
            RecordError: its manifest or seal cannot be read.
        """
        if isinstance(path, Run):
            return path
        run = cls(path=Path(path))
        _ = run.record  # refuses anything but a run
        return run

    @cached_property
    def record(self) -> reader.RunRecord:
        """The sealed record: manifest, status, root digest, events."""
        return reader.RunRecord.open(self.path)

    @property
    def status(self) -> str:
        """`complete`, `interrupted` or `failed`."""
        return self.record.status

    @property
    def metrics(self) -> Any:
        """Metrics with a row per step (loss, learning rate, seconds, …): a pandas frame, or dicts without pandas."""
        rows = self.record.metrics()
        if find_spec("pandas") is None or not rows:
            return rows
        return import_module("pandas").DataFrame(rows).set_index("step")

    @property
    def recipe(self) -> str:
        """The recipe as it was written, in YAML."""
        return (self.path / RECIPE).read_text("utf-8")

    @property
    def command(self) -> str:
        """The command that repeats the training."""
        return train_again(self.path)

    @property
    def scorecard(self) -> Scorecard | None:
        """Scorecard of the run's items; None without items. For an opened run see `evaluations`."""
        return None if self.result is None else self.result.scorecard

    @property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """Recorded summary of every sealed evaluation, by name."""
        return self.record.evaluations()

    def ask(self, question: str, *, max_new_tokens: int = 256) -> str:
        """The trained model's greedy answer to a question."""
        return ask(self.path, Question(text=question, max_new_tokens=max_new_tokens)).text

    def evaluate(self, items: Rows, name: str = "") -> Scorecard:
        """Evaluates the trained model on items and seals the evaluation in the run.

        Args:
            items: a file, or rows with `prompt` and `expected_answer`.
            name: name of the evaluation; by default the file's, or `given`, or with the next free number.

        Raises:
            RequestError: invalid items, or an evaluation of the given name exists.
        """
        settings = settings_of(check_recipe(dict(self.record.manifest.config), str(self.path)))
        # The default seed of `workings eval`: both give the same answers.
        settings = replace(settings, seed=0)
        with items_file(items) as file:
            unit = self.path / "eval" / name if name else free_unit(self.path, file.stem)
            if name and unit.exists():
                raise RequestError(f"{self.path} already has an evaluation name={name!r}", "another name",
                                   f"name={f'{name}-2'!r}")
            return evaluate_run(self.path, file, unit, settings=settings)

    def compare(self, other: "str | Path | Run") -> Comparison:
        """Whether this run is better than another one on the same items, pair by pair.

        Raises:
            RequestError: one of them has no evaluation, or several.
        """
        return compare(other.path if isinstance(other, Run) else other, self.path)

    def verify(self, level: int = 2) -> Verification:
        """Checks the record, offline."""
        return verify(self.path, level)

    def to_html(self) -> str:
        """A page without scripts: verdict compared with the untrained model, curve, scorecard, answers that differ."""
        base = None if self.result is None else self.result.base
        if base is None or base.path is None:
            return render_report([view_run(self.path, 0)], None)
        return render_report(report_views([base.path, self.path], base.comparison), base.comparison)

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:{HEIGHT}px;border:0" '
                f'title="{escape(self.path.name)}"></iframe><pre>{escape(repr(self))}</pre>')

    def __repr__(self) -> str:
        if self.result is not None:
            text = self.result.sentence()
        else:
            manifest: Any = self.record.manifest
            text = f"{self.status} after {manifest.completed_steps} steps: {self.path}"
            if own := self.evaluations.get(Path(RECIPE_EVALUATION).name):
                overall = own["scorecard"]["overall"]
                text += f"\naccuracy {percent(overall['mean'])} on {overall['n']} items"
        return f"{text}\nto repeat it: {self.command}"
