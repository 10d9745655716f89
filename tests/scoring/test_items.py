"""Items: read as they come, frozen by a digest, every bad line named."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import write_lines
from workings.errors import RequestError
from workings.record.digest import json_digest
from workings.scoring.items import Item, items_digest, read_items


def test_our_own_form(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "items.jsonl", [
        {"id": "a", "prompt": "1+1?", "expected_answer": 2, "section": "core", "difficulty": 3},
        {"id": 7, "prompt": "Capital?", "expected_answer": "Paris", "aliases": ["City of Light"],
         "tolerance": 0.5, "cluster": "geo", "source": "made up"}])
    first, second = read_items(path)
    assert first == Item(id="a", prompt="1+1?", expected_answer="2", section="core", difficulty="3")
    assert (second.id, second.category, second.cluster) == ("7", "unspecified", "geo")
    assert (second.aliases, second.tolerance) == (("City of Light",), 0.5)
    assert second.extra == {"source": "made up"}


def test_gsm8k_as_it_comes(shared: Path) -> None:
    items = read_items(shared / "data/gsm8k/test.jsonl")
    assert len(items) == 1319
    assert items[0].id == "test-00001"
    assert items[0].expected_answer == "18"
    assert items[2].expected_answer == "70000"
    assert items[0].difficulty == "2 steps"


def test_questions_with_a_line_as_answer(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "qa.jsonl", [
        {"question": "Capital?", "answer": "Paris"}, {"id": "b", "prompt": "2+2?", "answer": 4, "section": "sums"}])
    assert read_items(path) == [Item(id="qa-00001", prompt="Capital?", expected_answer="Paris"),
                                Item(id="b", prompt="2+2?", expected_answer="4", section="sums")]


@pytest.mark.parametrize(("name", "text", "said"), [
    ("qa.csv", "question,answer\n1+1?,2\n", "data import .*qa.csv --out questions.jsonl"),
    ("chat.jsonl", '{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}',
     "data import .*chat.jsonl --out questions.jsonl"),
    ("odd.jsonl", '{"q": "1+1?", "a": "2"}', "data import .*odd.jsonl --out questions.jsonl"),
    ("long.jsonl", '{"question": "1+1?", "answer": "1+1 = 2\\nso 2"}', "no '#### n' at its end"),
])
def test_a_file_of_another_format_is_told_with_what_brings_it_in(tmp_path: Path, name: str, text: str,
                                                                 said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RequestError, match=said):
        read_items(tmp_path / name)


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"id": "a", "prompt": "p", "expected_answer": "1"}\n'
                    "not json\n"
                    '["a", "list"]\n'
                    '{"id": "b", "prompt": "p"}\n'
                    '{"id": "c", "prompt": "p", "expected_answer": NaN}\n'
                    '{"id": "d", "prompt": "p", "expected_answer": " "}\n'
                    '{"id": "a", "prompt": "q", "expected_answer": "2"}\n'
                    '{"id": "e", "prompt": "q", "expected_answer": "2", "tolerance": -1}\n'
                    '{"id": "g", "prompt": "q", "expected_answer": "2", "history": "before"}\n'
                    + "[" * 100_000 + "\n"
                    + '{"id": "f", "prompt": "q", "expected_answer": "2", "tolerance": 1' + "0" * 400 + "}\n",
                    encoding="utf-8")
    with pytest.raises(RequestError) as caught:
        read_items(path)
    message = str(caught.value)
    for text in ("line 2: not JSON", "line 3: a JSON list", "line 4: has no 'expected_answer'",
                 "line 5: NaN is not JSON", "line 6: expected_answer is ' '", "line 8: tolerance is -1",
                 "line 9: `history` must be a list of turns", "line 10: JSON nested deeper",
                 "line 11: tolerance is 1000", "id 'a' comes 2 times"):
        assert text in message


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_items_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "items.jsonl").write_text(text)
    with pytest.raises(RequestError, match="has no items"):
        read_items(tmp_path / "items.jsonl")
    with pytest.raises(RequestError, match=r"gone\.jsonl"):
        read_items(tmp_path / "gone.jsonl")


def test_a_shipped_set_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = read_items(Path("eval"))
    assert len({item.id for item in found}) == len(found) == 100
    (tmp_path / "eval").write_text('{"id": "mine", "prompt": "1+1?", "expected_answer": 2}\n')
    assert [item.id for item in read_items(Path("eval"))] == ["mine"], "a file of that name is meant before it"


def test_the_digest_follows_content_and_order(tmp_path: Path) -> None:
    a = Item(id="a", prompt="p", expected_answer="1")
    b = Item(id="b", prompt="p", expected_answer="1")
    digests = {items_digest(items) for items in (
        [a, b], [b, a], [a], [Item(id="a", prompt="p", expected_answer="1", tolerance=0.1), b],
        [Item(id="a", prompt="p", expected_answer="1", extra={"source": "x"}), b])}
    assert len(digests) == 5
    assert items_digest([a, b]) == json_digest([a.to_json(), b.to_json()])
    path = write_lines(tmp_path / "items.jsonl", [a.to_json(), b.to_json()])
    assert items_digest(read_items(path)) == items_digest([a, b])
    assert json.loads(path.read_text().splitlines()[0])["section"] == "unspecified"
