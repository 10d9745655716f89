"""What every way of learning says of itself."""

import re
from pathlib import Path

import pytest

import workings
from workings.config.algorithm import DEFAULT, Algorithm, algorithms, find_algorithm
from workings.config.load import load_recipe
from workings.record import layout

NAMES = {value for key, value in vars(layout).items() if key.isupper() and isinstance(value, str)}
"""Files and folders that a record can have."""


@pytest.mark.parametrize("section", algorithms(), ids=lambda section: section.__name__)
def test_a_way_records_known_files(section: type[Algorithm]) -> None:
    assert {*section.records} <= NAMES
    assert len({*section.records} & {layout.ROWS, layout.PROMPTS}) == 1, "rows or prompts, which verify reads"


def test_a_name_that_no_way_has_means_the_default() -> None:
    assert find_algorithm("nothing") is find_algorithm(None) is find_algorithm(DEFAULT)
    assert load_recipe("smoke-tiny").recipe.algorithm.name == DEFAULT


def test_other_rooms_do_not_ask_of_which_kind_an_algorithm_is() -> None:
    classes = "|".join(kind.__name__ for section in algorithms() for kind in section.__mro__
                       if kind.__module__.startswith("workings.ways."))
    question = re.compile(rf"isinstance\(.*\b(?:{classes})\b|algorithm\.name *(?:==|!=)")
    root = Path(workings.__file__).parent
    asked = [f"{path.relative_to(root)}:{number}" for path in sorted(root.rglob("*.py"))
             if "ways" not in path.relative_to(root).parts
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if question.search(line)]
    assert len(asked) <= 2, asked
