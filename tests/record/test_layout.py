"""Names inside a record."""

import shlex
from pathlib import Path

import pytest

from workings.errors import RequestError
from workings.record.layout import refuse_unit_name


@pytest.mark.parametrize(("name", "plain"), [
    ("mein lauf", "mein-lauf"), ("Größe 2", "Grosse-2"), (".hidden", "hidden"), ("a" * 201, "a" * 200),
    ("日本", "run")])
def test_a_name_that_no_pack_could_hold_is_refused_with_one_that_it_can(tmp_path: Path, name: str, plain: str) -> None:
    with pytest.raises(RequestError) as refused:
        refuse_unit_name(tmp_path / name)
    proposed = Path(shlex.split(refused.value.try_next)[1])
    assert proposed == tmp_path / plain
    refuse_unit_name(proposed)
