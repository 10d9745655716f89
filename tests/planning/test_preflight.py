"""Lines before the first step."""

import pytest

from workings.config.load import load_recipe
from workings.planning.preflight import untuned_turns_lines


@pytest.mark.parametrize(("words", "count"), [
    ([], 1), (["data.template=plain"], 0), (["data.template=tokenizer"], 0)])
def test_turns_that_a_base_model_was_never_tuned_on_are_said(words: list[str], count: int) -> None:
    lines = untuned_turns_lines(load_recipe("gemma-3-270m-cpu", words).recipe, "google/gemma-3-270m")
    assert len(lines) == count
    assert all("the tokenizer of google/gemma-3-270m has no chat template" in line for line in lines)


def test_a_model_from_scratch_was_never_tuned_on_anything() -> None:
    assert not untuned_turns_lines(load_recipe("smoke-tiny").recipe, "scratch")
