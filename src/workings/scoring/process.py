"""The scoring process seen from outside: chunks in, judgements out, each completion under a time limit."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from workings.errors import RequestError
from workings.scoring.child_process import ChildProcess, ForeignAnswer, ending
from workings.scoring.items import Item
from workings.scoring.judge import Judgement, judgement_from_json
from workings.scoring.settings import ScoringSettings


class ScoringProcess(ChildProcess):
    """A child process that scores. Use as a context manager; a child that hangs or dies is replaced.

    Raises:
        RequestError: a person's own scorer cannot be loaded.
    """

    def __init__(self, settings: ScoringSettings) -> None:
        super().__init__("workings.scoring.child", settings.for_scoring())
        self._settings = settings

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """Judgements in the order given; one that hangs or kills the process is an error of that item alone.

        Args:
            completions: of each its item, its text, and whether it was cut off by the limit on new tokens.
        """
        second = self._settings.second_opinion != "none"
        done, _ = self._ask(completions, second)
        # Answers travel in groups: which completion took the process down is known only if each goes alone.
        while len(done) < len(completions):
            one = completions[len(done):len(done) + 1]
            alone, error = self._ask(one, second)
            if not alone and second:  # it may be the second opinion that fails: the first must not suffer
                alone, error = self._ask(one, False)
                alone = [replace(judgement, second_opinion="undecided") for judgement in alone]
            done += alone or [Judgement(error=error)]
        return done

    def begin(self, completions: Sequence[tuple[Item, str, bool]], pool: Executor) -> Callable[[], list[Judgement]]:
        """Have them judged in a thread of ``pool``; what is returned waits for what `judge` returns."""
        return pool.submit(self.judge, completions).result

    def _ask(self, completions: Sequence[tuple[Item, str, bool]], second: bool) -> tuple[list[Judgement], str]:
        """Judgements until the process ended or went silent, and what happened then (or "")."""
        # Started again if the last completion took it down.
        child = self._running()
        done: list[Judgement] = []
        try:
            self._send(child, [{"item": item.to_json(), "text": text, "truncated": truncated, "second": second}
                               for item, text, truncated in completions])
            # The limit is on the silence between two groups of answers, not on all of them together.
            while len(done) < len(completions):
                done += map(judgement_from_json, self._next(self._settings.item_seconds))
        except TimeoutError:
            self._stop()
            return done, f"time limit: not scored within {self._settings.item_seconds:g} s"
        except (EOFError, BrokenPipeError):
            self._stop()
            return done, f"the scoring process died ({ending(child)})"
        except ForeignAnswer:
            self._stop()
            return done, "the scorer wrote where its answers go"
        return done, ""

    def _refused(self, answer: Mapping[str, Any]) -> RequestError:
        return RequestError(f"scorer: {answer['problem'].removeprefix('scorer: ')}",
                            answer.get("expected", "a scorer that can be loaded"),
                            f"python {self._settings.scorer.split(':')[0]}")

    def _not_started(self) -> RequestError:
        return RequestError(f"scorer: {self._settings.scorer}",
                            "a scorer that can be loaded (an error stands above, or loading did not end)",
                            f"python {self._settings.scorer.split(':')[0]}")
