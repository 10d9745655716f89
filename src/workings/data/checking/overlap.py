"""Overlap of texts: near duplicates, and lines that hold a question of an evaluation set.

Texts are compared as words. Case, white space and punctuation do not count; numbers always do: problems of one template
differ in their numbers alone, and are no duplicates. The more numbers agree, the less of the wording has to: five equal
numbers are not chance.
"""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from workings.data.checking.findings import DataFinding, Entry, earlier_questions, excerpt, learned_texts
from workings.data.importing.sources import Unreadable, open_file
from workings.data.traces import Trace
from workings.errors import RequestError

SIMILARITY = 0.8
"""Jaccard similarity of the three-word passages from which texts without numbers count as near duplicates."""
SIMILARITY_WITH_NUMBERS = ((3, 0.4), (1, 0.6))
"""The limit for texts with at least this many numbers, all of them equal."""
SIMILARITY_WITHIN = 0.5
"""The limit for two texts without numbers if one has all words of the other, and no further denial."""
_DENIALS = frozenset(("not", "no", "never", "without", "t"))
_AMOUNTS = frozenset((
    "twice", "double", "doubled", "triple", "half", "halves", "third", "quarter", "percent", "dozen", "squared",
    "cubed", "square", "cube", "root", "negative", "minus", "plus", "times", "each", "every", "per", "more", "less",
    "fewer", "least", "most", "only", "except", "other", "another", "left", "remaining"))
"""Words by which a question with the same numbers asks for something else."""
WORDS_FOR_ONE_MORE = 10
"""Words of a question for each that another way to put it may have more."""
MOST_COMPARED = 50
"""Texts that one is compared with: those that share most passages with it."""
NGRAM = 13
"""Words of a passage that counts as copied (Brown et al., 2020, use 13)."""
PASSAGE_WORDS = 3
"""Words of a passage, by which two texts are compared."""
SHORTEST_QUESTION = 4
"""Minimum words and signs of a question to search in longer texts; shorter ones are too common."""
SHORTEST_SENTENCE = 3
"""Words of a question with a name ("Who wrote Hamlet?") that is looked for as a whole sentence of longer texts."""
# Of marks that are not words: bold, tags, and a star that closes a stretch; `3 * 4 < 13` has signs, which are words.
_END = re.compile(r"[.?!:;](?=\s|[\"'”’)*\]<]|$)|[\n\"“”]|\*\*|</?[a-z|][^<>\n]{0,40}>|(?<=[^\s*])\*(?! ?[\w(])|$",
                  re.IGNORECASE)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s.,;:!?\"'“”‘’`´()\[\]{}]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def words(text: str) -> list[str]:
    """Numbers (without grouping commas), words in one case, and signs that carry meaning (`+`, `-`, `%`)."""
    tokens = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word.replace(",", "") if _GROUPED.fullmatch(word) else word for word in tokens]


def numbers(text: list[str]) -> tuple[str, ...]:
    """The numbers among words, sorted."""
    return tuple(sorted(word for word in text if word[0].isdigit()))


def subject_of(entry: Entry) -> str:
    """The question of an entry, or the raw text that it is."""
    return entry.subject if isinstance(entry, Trace) else entry.prompt


def question_words(entry: Entry) -> list[str]:
    """The words of a question with its earlier turns: "And then?" is another question in another conversation."""
    return [word for said in (*(f"{turn.role} {turn.text}" for turn in entry.history), subject_of(entry))
            for word in words(said)]


def question_key(entry: Entry) -> tuple[object, ...]:
    """Equal for questions that differ in case, white space and punctuation only."""
    return len(entry.history), *question_words(entry)


class PassageIndex:
    """Texts (as `words`) by their numbers and passages, so that one is compared with those that share most with it."""

    def __init__(self) -> None:
        self._with_passage: dict[tuple[object, ...], list[int]] = {}
        self._shingles: list[frozenset[int]] = []

    def add(self, text: list[str]) -> None:
        """Add a text; texts are numbered from 0."""
        text_numbers, passages = numbers(text), shingles(text)
        for passage in passages:
            indices = self._with_passage.setdefault((text_numbers, passage), [])
            # A crowd of texts with one passage is represented by its first ones.
            if len(indices) < MOST_COMPARED:
                indices.append(len(self._shingles))
        self._shingles.append(passages)

    def alike(self, text: list[str]) -> list[tuple[float, int]]:
        """Similarity and index of texts with the same numbers and a passage in common, `MOST_COMPARED` at most."""
        text_numbers, passages = numbers(text), shingles(text)
        shared = Counter(other for passage in passages for other in self._with_passage.get((text_numbers, passage), ()))
        return [(similarity(passages, self._shingles[other]), other) for other, _ in shared.most_common(MOST_COMPARED)]


def near_duplicates(texts: Sequence[list[str]]) -> Iterator[tuple[int, int, float]]:
    """Near duplicates among texts as `words`: (later, earlier, similarity) for each and its nearest earlier text."""
    index = PassageIndex()
    for later, text in enumerate(texts):
        has_numbers, least = bool(numbers(text)), least_similarity(numbers(text))
        near = [(alike, earlier) for alike, earlier in index.alike(text)
                if alike >= least or _differ_little(text, texts[earlier], alike, has_numbers=has_numbers)]
        if near:
            # The earliest of equally similar ones.
            alike, earlier = max(near, key=lambda pair: (pair[0], -pair[1]))
            yield later, earlier, alike
        index.add(text)


def _differ_little(text: list[str], earlier: list[str], alike: float, *, has_numbers: bool) -> bool:
    """Whether two texts with the same numbers, or none, are near duplicates by what one says more than the other."""
    if has_numbers:
        return _says_little_more(text, earlier)
    return alike >= SIMILARITY_WITHIN and _asks_the_same(text, earlier)


def least_similarity(text_numbers: Sequence[str]) -> float:
    """The similarity from which texts with these numbers in common count as near duplicates."""
    return next((least for count, least in SIMILARITY_WITH_NUMBERS if len(text_numbers) >= count), SIMILARITY)


def _asks_the_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one text has all words of the other, and denies nothing more."""
    smaller, larger = sorted((set(one), set(other)), key=len)
    return smaller <= larger and not (larger - smaller) & _DENIALS


def _says_little_more(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one text is the other after an introduction, with a few more words but no amount.

    Both must begin and end alike after the introduction: text after a question asks for something else.
    """
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < SHORTEST_QUESTION:
        return False
    for added in range(max(1, len(shorter) // WORDS_FOR_ONE_MORE) + 1):
        part = longer[-len(shorter) - added:]
        words_left = iter(part)
        # `in` takes from the iterator, so the words are found in their order.
        if part[0] == shorter[0] and part[-1] == shorter[-1] and all(word in words_left for word in shorter):
            extra = (Counter(part) - Counter(shorter)).keys()
            return not extra & (_DENIALS | _AMOUNTS) and all(word.isalpha() for word in extra)
    return False


def shingles(text: Sequence[str]) -> frozenset[int]:
    """The three-word passages of a text (as words), each by its checksum; a shorter text is one passage."""
    starts = range(max(len(text) - PASSAGE_WORDS + 1, 1)) if text else ()
    # CRC-32, because Python's `hash` of a text differs between processes.
    return frozenset(zlib.crc32(" ".join(text[at:at + PASSAGE_WORDS]).encode()) for at in starts)


def similarity(a: frozenset[int], b: frozenset[int]) -> float:
    """Share of the passages of two texts that both have (Jaccard)."""
    return len(a & b) / len(a | b)


def read_questions(path: Path) -> dict[str, str]:
    """Questions of a file (`prompt` or `question`) -> their ids. Raises `RequestError` naming a record without one."""
    questions = {}
    for record in open_file(path).records():
        # One bad record stops the check: questions that were not read would be leaks that are never found.
        value = record.value if not isinstance(record, Unreadable) else None
        prompt = (value.get("prompt") or value.get("question")) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(prompt, str):
            raise RequestError(f"{path}:{record.number}: the record has no question",
                               "a record with `prompt` or `question`", "an items file, as `workings eval` reads it")
        questions[prompt] = str(value.get("id", f"line {record.number}"))
    return questions


def find_leaks(entries: Sequence[tuple[int, Entry]], questions: Mapping[str, str]) -> Iterator[DataFinding]:
    """Leaks of questions into texts, at most one an entry: the question itself, its words, or a part of it anywhere.

    ``questions`` of an evaluation set -> their ids.
    A part is a long passage of a question, or the whole of a short one within other words.
    """
    spelled = [(prompt, words(prompt), name) for prompt, name in questions.items()]
    normalized = {tuple(text): name for _, text, name in spelled}
    # Every passage of every question in one dict: each passage of an entry is then one look-up, not one a question.
    id_of_passage = {tuple(text[at:at + NGRAM]): name
                     for _, text, name in spelled for at in range(len(text) - NGRAM + 1)}
    short = _short((prompt, name) for prompt, text, name in spelled if len(text) < NGRAM)
    for number, entry in entries:
        entry_questions = [entry.prompt, *earlier_questions(entry)]
        entry_words = [words(prompt) for prompt in entry_questions]
        same = next((index for index, text in enumerate(entry_words) if tuple(text) in normalized), None)
        other_texts = (*learned_texts(entry), *(turn.text for turn in (*entry.history, *entry.tool_turns)))
        if same is not None:
            kind, text = "leak", f"asked as {normalized[tuple(entry_words[same])]}: {excerpt(entry_questions[same])}"
        elif passage := _passage(chain(entry_words, map(words, other_texts)), id_of_passage):
            kind, text = "ngram_leak", f"{NGRAM} words of {id_of_passage[passage]}: {excerpt(' '.join(passage))}"
        elif name := _contained(chain(entry_questions, other_texts), short):
            kind, text = "contained_leak", f"all of {name}: {excerpt(subject_of(entry))}"
        else:
            continue
        yield DataFinding(kind, number, entry.id, text)


Beginnings = dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]]
"""First words of a short question -> all words and the id of each that begins so."""


def _short(questions: Iterable[tuple[str, str]]) -> Beginnings:
    """Questions that are found as a whole within longer texts: wrapped in instructions, or in a history."""
    beginnings: Beginnings = {}
    for prompt, name in questions:
        text = tuple(_with_ends(prompt)[0])
        if len(text) >= SHORTEST_QUESTION or (len(text) == SHORTEST_SENTENCE and _holds_name(prompt)):
            beginnings.setdefault(text[:SHORTEST_SENTENCE], []).append((text, name))
    return beginnings


def _contained(texts: Iterable[str], known: Beginnings) -> str:
    """Id of the first short question that one of the texts holds; empty without one."""
    for spelled, ends in map(_with_ends, texts if known else ()):
        for at in range(len(spelled) - SHORTEST_SENTENCE + 1):
            for question, name in known.get(tuple(spelled[at:at + SHORTEST_SENTENCE]), ()):
                end = at + len(question)
                # "What is 47+25+3?" contains the words of "What is 47+25?" but is another question.
                if tuple(spelled[at:end]) == question and end in ends and (
                        len(question) > SHORTEST_SENTENCE or at in {0, *ends}):
                    return name
    return ""


def _holds_name(question: str) -> bool:
    """Whether a word after the first begins with a capital; one letter is no name (`I`, `X`)."""
    return any(word[0].isupper() for word in re.findall(r"[^\W\d_]{2,}", question)[1:])


def _with_ends(text: str) -> tuple[list[str], set[int]]:
    """The words of a text, and how many of them come before each end of a sentence, line or quotation."""
    spelled: list[str] = []
    ends = set()
    for part in _END.split(text):
        spelled += words(part)
        ends.add(len(spelled))
    return spelled, ends


def _passage(texts: Iterable[list[str]], known: dict[tuple[str, ...], str]) -> tuple[str, ...] | None:
    """The first passage of an evaluation question in the texts."""
    for text in texts if known else ():
        for at in range(len(text) - NGRAM + 1):
            if (piece := tuple(text[at:at + NGRAM])) in known:
                return piece
    return None
