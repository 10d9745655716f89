"""Every key matters: another value of each key of a recipe changes something that a witness sees, or is refused."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.config import key_witnesses
from tests.data.conversations import conversations
from tests.engines.tiny import request, tiny_shape
from tools.key_effects import EFFECTS, WITNESSES, Effect
from workings.config.recipe import known_keys
from workings.data.generators import addition
from workings.data.traces import write_items, write_traces
from workings.engines.registry import find_engine
from workings.errors import RequestError, WorkingsError
from workings.models.tokenizer_training import train_tokenizer
from workings.runs.prepare import prepare

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("run", "program")
"""Witnesses that train or compile."""
Look = Callable[[str, tuple[str, ...]], Any]
"""A witness and words of a recipe, and what is seen of it."""
IN_EVERY_TEST = ("checkpoint.keep_last", "optimizer.momentum")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Folders of weights and files of data by the words of the table."""
    folder = tmp_path_factory.mktemp("keys")
    traces, items = addition.make(30, 6, 3)
    tokenizer = train_tokenizer((trace.prompt for trace in traces), 400)
    for name, layers in (("FOLDER", 2), ("LARGER", 3)):
        (folder / name).mkdir()
        engine = find_engine("torch").engine.open(request(tiny_shape(vocab=tokenizer.vocab_size, layers=layers)))
        engine.export(engine.init(0), folder / name)
        tokenizer.save(folder / name)
    write_traces(folder / "OTHER", traces)
    write_traces(folder / "TALKS", conversations(9))
    write_items(folder / "ITEMS", items)
    with pytest.MonkeyPatch.context() as patch:
        # Of the recipe's own traces fewer, too: most witnesses train a tokenizer on them.
        patch.setattr("workings.inputs.datasets.ADDITION_TRACES", 200)
        yield {name: str(folder / name) for name in ("FOLDER", "LARGER", "OTHER", "TALKS", "ITEMS")}


@pytest.fixture(scope="module")
def base_seen(places: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Look:
    """What a witness sees of the words that an effect is compared with: many keys share them."""
    @cache
    def look(witness: str, base: tuple[str, ...]) -> Any:
        words, folder = filled(base, places), tmp_path_factory.mktemp("base")
        before = seen(witness, words, folder / "first")
        # The witness sees no difference where there is none: clocks and folders are not among what it compares.
        if witness not in SLOW:
            assert seen(witness, words, folder / "again") == before, f"{base}: the same recipe twice"
        return before
    return look


def filled(words: tuple[str, ...], places: dict[str, str]) -> list[str]:
    made = []
    for word in words:
        for name, path in places.items():
            word = word.replace(name, path)
        made.append(word)
    return made


def seen(witness: str, words: list[str], folder: Path) -> Any:
    """What a witness sees of a recipe; a refusal is seen as its message."""
    look = getattr(key_witnesses, {"rollout": "rolled_out"}.get(witness, witness))
    try:
        return look(words, folder) if witness in ("update", "run") else look(words)
    except WorkingsError as error:
        return str(error)


def test_every_key_is_in_the_table() -> None:
    assert [key for key in known_keys() if key not in EFFECTS] == []
    assert [key for key in EFFECTS if key not in known_keys()] == []
    assert {effect.witness for effect in EFFECTS.values()} <= {*WITNESSES}


def cases() -> Iterator[Any]:
    for key, effect in EFFECTS.items():
        if effect.witness not in ("refused", "named"):
            marks = [pytest.mark.slow] if effect.witness in SLOW or "engine=jax" in effect.base + effect.other else []
            # Whole runs and compilations take most of the time; some are enough to see that the witness works.
            rare = effect.witness == "run" or "engine=jax" in effect.base
            marks += [pytest.mark.full] if rare and key not in IN_EVERY_TEST else []
            yield pytest.param(key, effect, marks=marks, id=key)


@pytest.mark.parametrize(("key", "effect"), [*cases()])
def test_another_value_shows(key: str, effect: Effect, places: dict[str, str],
                             base_seen: Look, tmp_path: Path) -> None:
    before = base_seen(effect.witness, effect.base)
    after = seen(effect.witness, filled((*effect.base, *effect.other), places), tmp_path / "other")
    assert after != before, f"{key}: {WITNESSES[effect.witness]} stays the same with {effect.other}"


@pytest.mark.parametrize(("key", "effect"), [
    pytest.param(key, effect, id=key) for key, effect in EFFECTS.items() if effect.witness == "refused"])
def test_another_value_is_refused(key: str, effect: Effect, places: dict[str, str]) -> None:
    words = [*filled(effect.base, places), *filled(effect.other, places)]
    with pytest.raises(RequestError) as caught:
        prepare(key_witnesses.recipe(words))
    assert key.rpartition(".")[2] in str(caught.value) or effect.other[0].partition("=")[2] in str(caught.value)


def test_the_tests_that_are_named_exist() -> None:
    for key, effect in EFFECTS.items():
        if effect.witness == "named":
            file, _, name = effect.other[0].partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"\ndef {name}(" in text if name else key.rpartition(".")[2] in text, key
