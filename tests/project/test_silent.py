"""Cases of `proof/silent`: some hold, and each of some mistakes makes its case red."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from proof.silent.__main__ import ROOT, cases, ours
from workings.data import rows
from workings.data.rows import Row
from workings.engines.registry import find_engine
from workings.models.chat import ChatTemplate
from workings.scoring.rewards import RewardProcess
from workings.ways import rewards
from workings.ways.rewards import Grpo, Gspo

REPORTS = ROOT / "proof" / "reports.md"
FAST = ("batch_statistics", "cut_answers", "double_bos", "dropped_context", "dropped_reasoning", "dropped_system_turn",
        "dropped_tools", "equal_pair", "equal_rewards", "foreign_teacher", "fragment_of_number", "group_statistics",
        "ignored_turn_weight", "incomplete_checkpoint", "lost_end_of_turn", "mask_starts_early", "masked_denominator",
        "packed_border", "pad_is_eos", "rate_as_text", "reasoning_twice", "retokenized_completion", "rewritten_turns",
        "talked_into", "template_without_stop", "tiny_values", "trained_questions", "unread_settings")
"""Cases that ask no engine and start no process."""


@pytest.mark.parametrize("name", FAST)
def test_a_case_of_the_data_is_not_wrong(name: str) -> None:
    found = ours(name)["torch"]
    assert found["verdict"] != "wrong", found["evidence"]


def test_what_repeats_a_report_is_there() -> None:
    reports = REPORTS.read_text(encoding="utf-8").partition("\n## ")[0]
    rows = [line.rsplit("|", 2)[1].strip() for line in reports.rstrip().splitlines()[10:]]
    assert len(rows) == 60
    for named in {*rows} - {"by hand"}:
        file, _, test = named.strip("`").partition("::")
        if file.startswith("tests/"):
            assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), named
        else:
            assert file in cases(), named


# --- cases can fail -----------------------------------------------------------------------------------------------

TORCH = find_engine("torch").engine


def _changed_masks(change: Callable[[Row], None]) -> Callable[[pytest.MonkeyPatch], None]:
    made = rows.row_of

    def row_of(encoded: Any) -> Row:
        row = made(encoded)
        change(row)
        return row
    return lambda patch: patch.setattr(rows, "row_of", row_of)


def _early(row: Row) -> None:
    first = int(row.loss_mask.argmax())
    row.loss_mask[first - 3:first] = 1


def _endless(row: Row) -> None:
    row.loss_mask[-1] = 0


def _float32(values: Any) -> list[float]:
    x = np.array(values, np.float32)
    spread = np.sqrt(np.maximum((x * x).mean() - x.mean() ** 2, np.float32(0)))
    return [float(y) for y in (x - x.mean()) / (spread + np.float32(1e-4))]


def _shifted(patch: pytest.MonkeyPatch) -> None:
    score = RewardProcess.score
    patch.setattr(RewardProcess, "score", lambda self, samples: (lambda found: found[-1:] + found[:-1])(
        score(self, samples)))


MISTAKES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "mask_starts_early": _changed_masks(_early), "lost_end_of_turn": _changed_masks(_endless),
    "dropped_system_turn": lambda patch: patch.setattr(ChatTemplate, "refuse_other_texts", lambda *_: None),
    "group_statistics": lambda patch: patch.setattr(rewards, "normalized", _float32),
    "sequence_ratio": lambda patch: patch.setattr(Gspo, "ratio", Grpo.ratio),
    "late_reference": lambda patch: patch.setattr(TORCH, "without_adapters", lambda self, state: state),
    "shifted_rewards": _shifted}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_makes_its_case_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MISTAKES[name](monkeypatch)
    check = import_module(f"proof.silent.{name}").check
    found = check("torch") if check.__code__.co_argcount else check()
    assert found.verdict == "wrong", found.evidence
