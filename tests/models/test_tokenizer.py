"""The trained tokenizer and the reading of tokenizers from disk."""

import json

import pytest

from workings.errors import RequestError
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import CONTROL_TOKENS, TAGS, train_tokenizer

TEXTS = ["What is 47+25?", "7+5=12, write 2 carry 1", "4+2+1=7", "72"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, 400)


def test_gemmas_control_tokens_have_gemmas_first_ids(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token_id(token) for token in CONTROL_TOKENS] == [0, 1, 2, 3, 4, 5]
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.bos_id) == (0, 1, 2)
    assert set(tokenizer.control_tokens) == set(CONTROL_TOKENS)


def test_digits_stay_single_whatever_the_texts_repeat(tokenizer: Tokenizer) -> None:
    pieces = [tokenizer.token(token) for token in tokenizer.encode("1234567890 12 12 12")]
    assert [piece for piece in pieces if piece != "▁"] == list("1234567890121212")
    trained_on_numbers = train_tokenizer(["1234 1234 1234"] * 100, 400)
    assert len(trained_on_numbers.encode("1234")) == 4


def test_a_tag_is_one_token_that_decoding_keeps(tokenizer: Tokenizer) -> None:
    for tag in TAGS:
        assert len(tokenizer.encode(tag)) == 1
    ids = tokenizer.encode("<reasoning>1</reasoning><answer>2</answer><end_of_turn>")
    assert tokenizer.decode(ids, skip_special=True) == "<reasoning>1</reasoning><answer>2</answer>"
    assert tokenizer.decode(ids).endswith("<end_of_turn>")


@pytest.mark.parametrize("text", ["", "Grüße 漢字 🎉", "<0x41> is text", " two  spaces ", "\n\n\ttab\r\n", "a▁b"[:1],
                                  "x" * 1000])
def test_no_text_is_lost(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_equal_texts_give_equal_tokenizers_in_another_process(tokenizer: Tokenizer, run_python) -> None:
    code = ("from workings.models.tokenizer_training import train_tokenizer\n"
            f"print(train_tokenizer({TEXTS!r}, 400).digest)")
    assert run_python("-c", code).stdout.strip() == tokenizer.digest


def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, tmp_path) -> None:
    tokenizer.save(tmp_path / "tok")
    again = Tokenizer.load(tmp_path / "tok")
    assert again.digest == tokenizer.digest
    assert (again.vocab_size, again.bos_id, again.chat_template) == (
        tokenizer.vocab_size, tokenizer.bos_id, tokenizer.chat_template)
    assert again.encode("What is 9+9?<end_of_turn>") == tokenizer.encode("What is 9+9?<end_of_turn>")


def test_a_tokenizer_file_alone_is_enough_and_a_chat_template_in_its_own_file_counts(tokenizer, tmp_path) -> None:
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    alone = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (alone.bos_id, alone.eos_id, alone.pad_id, alone.chat_template) == (2, 1, 0, None)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert Tokenizer.load(tmp_path).chat_template == "{{ messages }}"


def test_turn_marks_are_control_tokens_also_when_published_as_ordinary(tokenizer: Tokenizer, tmp_path) -> None:
    tokenizer.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    for token in content["added_tokens"]:
        token["special"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert set(Tokenizer.load(tmp_path).control_tokens) == {*CONTROL_TOKENS} - {"<unk>"}


def test_truncation_and_padding_stored_in_the_file_are_switched_off(tokenizer: Tokenizer, tmp_path) -> None:
    tokenizer.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert len(Tokenizer.load(tmp_path).encode("1234567890")) == 10


def test_what_is_not_a_tokenizer_is_refused(tokenizer: Tokenizer, tmp_path) -> None:
    with pytest.raises(RequestError, match=r"a directory with tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(RequestError, match=r"a tokenizer\.json of the tokenizers library"):
        Tokenizer.load(tmp_path)
    tokenizer.save(tmp_path / "odd")
    (tmp_path / "odd" / "tokenizer_config.json").write_text('{"bos_token": "<nowhere>"}')
    with pytest.raises(RequestError, match="the vocabulary of the tokenizer lacks"):
        _ = Tokenizer.load(tmp_path / "odd").bos_id
    (tmp_path / "odd" / "tokenizer_config.json").write_text("{")
    with pytest.raises(RequestError, match="a JSON object"):
        Tokenizer.load(tmp_path / "odd")


def test_a_vocabulary_that_is_too_small_is_refused() -> None:
    # Control tokens, tags, bytes and digits; then a b d e l m o r s u of the texts and roles, space and line break.
    needed = 278 + 12
    with pytest.raises(RequestError, match=f"at least {needed}"):
        train_tokenizer(["ab ab ab"], needed - 1)
    assert train_tokenizer(["ab ab ab"], needed).vocab_size == needed
    with pytest.raises(RequestError, match="at least"):
        train_tokenizer(["ab"], 1)
