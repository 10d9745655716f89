"""Overlap of texts: near duplicates among traces, and leaks: questions of an evaluation set that got into traces.

Texts are compared as words (`words`): case, white space and punctuation do not count. Numbers always count, because
problems of one template differ only in their numbers: "3 pens and 4 more" is no duplicate of "5 pens and 4 more". The
more numbers agree, the less of the wording has to: five equal numbers are not chance.
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
"""Jaccard similarity of the three-word passages from which texts without numbers are near duplicates."""
SIMILARITY_WITHIN = 0.5
"""The same for two texts without numbers, if one has all words of the other and no further denial."""
PASSAGE_WORDS = 3
"""Words of a passage by which two texts are compared."""
MOST_COMPARED = 50
"""Maximum number of texts that a text is compared with: those that share most passages with it."""
WORDS_FOR_ONE_MORE = 10
"""Words of a question for each further word that a near duplicate with the same numbers may have."""
_DENIALS = frozenset(("not", "no", "never", "without", "t"))
_AMOUNTS = frozenset((
    "twice", "double", "doubled", "triple", "half", "halves", "third", "quarter", "percent", "dozen", "squared",
    "cubed", "square", "cube", "root", "negative", "minus", "plus", "times", "each", "every", "per", "more", "less",
    "fewer", "least", "most", "only", "except", "other", "another", "left", "remaining"))
"""Words by which a question with the same numbers asks for something else."""
NGRAM = 13
"""Words of a passage that counts as copied from an evaluation set (Brown et al., 2020, use 13)."""
SHORTEST_QUESTION = 4
"""Minimum words and signs of a question that is searched in longer texts; shorter ones are too common."""
SHORTEST_SENTENCE = 3
"""The same for a question with a name ("Who wrote Hamlet?"), which has to be a whole sentence of the longer text. So
all short questions can be looked up by their first three words."""
# Ends of sentences, lines and quotations, and marks that are not words: bold, tags, and a star that closes emphasis.
_END = re.compile(r"[.?!:;](?=\s|[\"'”’)*\]<]|$)|[\n\"“”]|\*\*|</?[a-z|][^<>\n]{0,40}>|(?<=[^\s*])\*(?! ?[\w(])|$",
                  re.IGNORECASE)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s.,;:!?\"'“”‘’`´()\[\]{}]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
ShortQuestions = dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]]
"""First words of a short question -> all words and the id of each question that begins with them."""


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
    """Texts as `words`, by their numbers and passages: finds those that share most with another text."""

    def __init__(self) -> None:
        self._with_passage: dict[tuple[object, ...], list[int]] = {}
        self._shingles: list[frozenset[int]] = []

    def add(self, text: list[str]) -> None:
        """Add a text; texts are numbered from 0."""
        text_numbers, passages = numbers(text), shingles(text)
        for passage in passages:
            indices = self._with_passage.setdefault((text_numbers, passage), [])
            # The first texts with a passage represent all of them.
            if len(indices) < MOST_COMPARED:
                indices.append(len(self._shingles))
        self._shingles.append(passages)

    def alike(self, text: list[str]) -> list[tuple[float, int]]:
        """Similarity and number of the texts with the same numbers and a passage in common."""
        text_numbers, passages = numbers(text), shingles(text)
        shared = Counter(other for passage in passages for other in self._with_passage.get((text_numbers, passage), ()))
        return [(similarity(passages, self._shingles[other]), other) for other, _ in shared.most_common(MOST_COMPARED)]


def shingles(text: Sequence[str]) -> frozenset[int]:
    """The three-word passages of a text (as words), each as a checksum; a shorter text is one passage."""
    starts = range(max(len(text) - PASSAGE_WORDS + 1, 1)) if text else ()
    # CRC-32, because Python's `hash` of a text differs between processes.
    return frozenset(zlib.crc32(" ".join(text[start:start + PASSAGE_WORDS]).encode()) for start in starts)


def similarity(a: frozenset[int], b: frozenset[int]) -> float:
    """Share of the passages of two texts that both have (Jaccard)."""
    return len(a & b) / len(a | b)


def near_duplicates(texts: Sequence[list[str]]) -> Iterator[tuple[int, int, float]]:
    """(number, earlier number, similarity) of each text with a near duplicate before it, the most similar one."""
    index = PassageIndex()
    for number, text in enumerate(texts):
        text_numbers = numbers(text)
        near = [(share, earlier) for share, earlier in index.alike(text)
                if _are_near(text, texts[earlier], share, text_numbers)]
        if near:
            # The earliest of equally similar ones.
            share, earlier = max(near, key=lambda pair: (pair[0], -pair[1]))
            yield number, earlier, share
        index.add(text)


def least_similarity(text_numbers: Sequence[str]) -> float:
    """The similarity from which texts with these numbers in common are near duplicates."""
    if len(text_numbers) >= 3:
        return 0.4
    return 0.6 if text_numbers else SIMILARITY


def _are_near(one: list[str], other: list[str], alike: float, text_numbers: Sequence[str]) -> bool:
    """Whether two texts, both with these numbers and of this similarity, are near duplicates."""
    if alike >= least_similarity(text_numbers):
        return True
    if text_numbers:
        return _says_little_more(one, other)
    if alike < SIMILARITY_WITHIN:
        return False
    # One text has all words of the other, and denies nothing more.
    smaller, larger = sorted((set(one), set(other)), key=len)
    return smaller <= larger and not (larger - smaller) & _DENIALS


def _says_little_more(one: list[str], other: list[str]) -> bool:
    """Whether one text ends with the other and a few more words, but no amount.

    "Solve: how many good apples are 2 and 3" ends with "how many apples are 2 and 3" and one more word.
    """
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < SHORTEST_QUESTION:
        return False
    most_added = max(1, len(shorter) // WORDS_FOR_ONE_MORE)
    for added in range(most_added + 1):
        part = longer[-(len(shorter) + added):]
        # Both must begin and end alike: text after a question asks for something else.
        if part[0] == shorter[0] and part[-1] == shorter[-1] and _holds_in_order(part, shorter):
            extra = (Counter(part) - Counter(shorter)).keys()
            return not extra & (_DENIALS | _AMOUNTS) and all(word.isalpha() for word in extra)
    return False


def _holds_in_order(text: list[str], wanted: list[str]) -> bool:
    # `in` takes words from the iterator up to the one it finds.
    remaining = iter(text)
    return all(word in remaining for word in wanted)


def read_questions(path: Path) -> dict[str, str]:
    """Questions of a file (`prompt` or `question`) -> their ids. Raises `RequestError` for a record without one."""
    questions = {}
    for record in open_file(path).records():
        value = {} if isinstance(record, Unreadable) or not isinstance(record.value, dict) else record.value
        prompt = value.get("prompt") or value.get("question")
        if not isinstance(prompt, str):
            raise RequestError(f"{path}:{record.number}: the record has no question",
                               "a record with `prompt` or `question`", "an items file, as `workings eval` reads it")
        questions[prompt] = str(value.get("id", f"line {record.number}"))
    return questions


def find_leaks(entries: Sequence[tuple[int, Entry]], questions: Mapping[str, str]) -> Iterator[DataFinding]:
    """Leaks of questions of an evaluation set (with their ids) into entries, at most one finding an entry.

    A leak is the question itself, a long passage of it anywhere in the entry, or all of a short one within other words.
    """
    words_of = {prompt: words(prompt) for prompt in questions}
    id_of_question = {tuple(words_of[prompt]): name for prompt, name in questions.items()}
    id_of_passage = {passage: name for prompt, name in questions.items() for passage in _passages(words_of[prompt])}
    short = _short_questions({prompt: name for prompt, name in questions.items() if len(words_of[prompt]) < NGRAM})
    for number, entry in entries:
        asked = [entry.prompt, *earlier_questions(entry)]
        asked_words = [words(prompt) for prompt in asked]
        others = (*learned_texts(entry), *(turn.text for turn in (*entry.history, *entry.tool_turns)))
        same = [prompt for prompt, text in zip(asked, asked_words, strict=True) if tuple(text) in id_of_question]
        if same:
            name = id_of_question[tuple(words(same[0]))]
            yield DataFinding("leak", number, entry.id, f"asked as {name}: {excerpt(same[0])}")
        elif passage := _first_passage(chain(asked_words, map(words, others)), id_of_passage):
            name = id_of_passage[passage]
            yield DataFinding("ngram_leak", number, entry.id, f"{NGRAM} words of {name}: {excerpt(' '.join(passage))}")
        elif name := _contained(chain(asked, others), short):
            yield DataFinding("contained_leak", number, entry.id, f"all of {name}: {excerpt(subject_of(entry))}")


def _passages(text: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(text[start:start + NGRAM]) for start in range(len(text) - NGRAM + 1))


def _first_passage(texts: Iterable[list[str]], known: Mapping[tuple[str, ...], str]) -> tuple[str, ...] | None:
    """The first passage of an evaluation question in the texts."""
    if not known:
        return None
    return next((passage for text in texts for passage in _passages(text) if passage in known), None)


def _short_questions(questions: Mapping[str, str]) -> ShortQuestions:
    """Questions that are searched as a whole within longer texts: wrapped in instructions, or in a history."""
    by_beginning: ShortQuestions = {}
    for prompt, name in questions.items():
        text, _ = _with_ends(prompt)
        if len(text) >= SHORTEST_QUESTION or (len(text) == SHORTEST_SENTENCE and _holds_name(prompt)):
            by_beginning.setdefault(tuple(text[:SHORTEST_SENTENCE]), []).append((tuple(text), name))
    return by_beginning


def _contained(texts: Iterable[str], known: ShortQuestions) -> str:
    """Id of the first short question that one of the texts holds; empty without one."""
    for spelled, ends in map(_with_ends, texts if known else ()):
        for start in range(len(spelled) - SHORTEST_SENTENCE + 1):
            for question, name in known.get(tuple(spelled[start:start + SHORTEST_SENTENCE]), ()):
                end = start + len(question)
                is_sentence = start == 0 or start in ends
                # "What is 47+25+3?" contains the words of "What is 47+25?" but is another question.
                if tuple(spelled[start:end]) == question and end in ends and (
                        is_sentence or len(question) > SHORTEST_SENTENCE):
                    return name
    return ""


def _holds_name(question: str) -> bool:
    """Whether a word after the first begins with a capital; one letter is no name (`I`, `X`)."""
    return any(word[0].isupper() for word in re.findall(r"[^\W\d_]{2,}", question)[1:])


def _with_ends(text: str) -> tuple[list[str], set[int]]:
    """The words of a text, and the numbers of words before each end of a sentence, line or quotation."""
    spelled: list[str] = []
    ends = set()
    for part in _END.split(text):
        spelled += words(part)
        ends.add(len(spelled))
    return spelled, ends
