"""`import workings`: the verbs as functions, and light."""

import pytest

import workings
from tests.runs.runs_helpers import write_recipe
from workings.evaluation.settings import EvaluationSettings


def test_the_verbs_as_functions(tmp_path):
    recipe = write_recipe(tmp_path / "asked")
    trained = workings.train(str(recipe), tmp_path / "run")
    scorecard = workings.evaluate(tmp_path / "run", recipe.with_name("items.jsonl"), tmp_path / "again",
                                   settings=EvaluationSettings(max_new_tokens=4, batch_size=8, form="tags", seed=5))
    assert scorecard.overall.n == trained.scorecard.overall.n == 10
    comparison = workings.compare(tmp_path / "run", tmp_path / "again")
    assert comparison.to_json()["items"] == 10
    assert workings.verify(tmp_path / "run").failed == 0
    with pytest.raises(AttributeError, match="no attribute 'deploy'"):
        workings.deploy  # noqa: B018


def test_importing_brings_no_framework(run_python):
    code = ("import sys, workings; heavy = {'jax', 'torch', 'transformers', 'pandas', 'numpy', 'scipy'}; "
            "print(sorted(heavy & set(sys.modules)), dir(workings))")
    assert run_python("-c", code).stdout.strip() == "[] ['compare', 'evaluate', 'plan', 'train', 'verify']"
