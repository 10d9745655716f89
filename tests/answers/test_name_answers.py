"""A sentence that says one name which its question does not say; and those that say another one, or none."""

import pytest

from workings.answers.name_answers import names_expected_answer

RED = "Which planet is known as the Red Planet?"
WROTE = "Who wrote Don Quixote?"
MORE = "Anna has 27 marbles and Ben has 24. Who has more marbles?"


@pytest.mark.parametrize(("given", "expected", "question"), [
    ("Pacific", "Pacific Ocean", "What is the largest ocean on Earth?"),
    ("The Pacific Ocean", "Pacific", "What is the largest ocean on Earth?"),
    ("The Red Planet is the nickname of Mars; it looks reddish.", "Mars", RED),
    ("Constantinople is known today as İstanbul, the largest city in Türkiye.", "Istanbul",
     "What is the modern name of Constantinople?"),
    ("It was written by the Spanish author Miguel de Cervantes Saavedra.", "Cervantes", WROTE),
    ("Albert Einstein.", "Einstein", "Which physicist published general relativity?"),
    ("Anna has more: she has 27, while Ben only has 24.", "Anna", MORE),
    # A surname, initials, a possessive, and the name behind the last "was".
    ("Newton", "Isaac Newton", "Which scientist formulated the laws of motion?"),
    ("It was John Ronald Tolkien.", "John R. Tolkien", "Who wrote The Hobbit?"),
    ("Pip is the hero of Dickens's novel Great Expectations.", "Great Expectations", "Which Dickens novel has Pip?"),
    ("The king who was crowned in Reims, France, in 1775 was Louis.", "Louis", "Which king was crowned in 1775?"),
    # Who did it, what came last of a correction, a name that comes of one that is asked with, politeness.
    ("Raj won the race, while Tom came last.", "Raj", "Tom and Raj ran a race. Who won?"),
    ("It was Milan – no, sorry, it was Rome.", "Rome", "Which city is the capital of Italy?"),
    ("Brazilians speak Portuguese, not Spanish.", "Portuguese", "Which language is spoken in Brazil?"),
    ("That would be Mars.", "Mars", RED),
    # A title, a middle name, an adjective of the question's noun, another language.
    ("It was President Washington.", "George Washington", "Who was the first president of the United States?"),
    ("It was Vincent Willem van Gogh.", "Vincent van Gogh", "Who painted The Starry Night?"),
    ("The Japanese yen (¥)", "yen", "What currency is used in Japan?"),
    ("Deutsch (German)", "German", "What is the language of this sentence?"),
    # Emphasized words, where the expected answer is no name.
    ("The currency of Japan is the **Japanese yen** (JPY).", "yen", "What is the currency of Japan?"),
])
def test_names_that_answer(given: str, expected: str, question: str) -> None:
    assert names_expected_answer(given, expected, question)


@pytest.mark.parametrize(("given", "expected", "question"), [
    ("Venus is known as the Red Planet.", "Mars", RED),
    ("It isn't Mars.", "Mars", RED),
    ("It was Milan – no, sorry, it was Rome.", "Milan", "Which city is the capital of Italy?"),
    ("Raj nearly won the race, but Tom was faster.", "Raj", "Tom and Raj ran a race. Who won?"),
    ("It might be Mars.", "Mars", RED),
    ("It would be Mars.", "Mars", RED),
    ("Jupiter is larger than Mars.", "Mars", RED),
    ("Either Venus or Mars.", "Mars", RED),
    ("Mars is red. But the answer is Venus.", "Mars", RED),
    ("York is a city in England.", "New York", "Which city never sleeps?"),
    ("New York.", "York", "Which city has the oldest walls?"),
    ("Shakespeare, not Cervantes, wrote it.", "Cervantes", WROTE),
    ("Ben has more: he has 27.", "Anna", MORE),
    ("Anna has fewer marbles.", "Anna", MORE),
    ("Anna has more friends or Ben does.", "Anna", MORE),
    ("Alexander", "Alexander Fleming", "Which scientist discovered penicillin?"),
    ("Jeb Bush", "George W. Bush", "Who was the 43rd president?"),
    ("The currency of Japan is the **Chinese yen**.", "yen", "What is the currency of Japan?"),
    ("The currency of Japan is not the **yuan**.", "yuan", "What is the currency of Japan?"),
    ("I would eliminate B.", "B", "Which option is wrong here?"),
    ("Mars", "Mars 2", RED),
    ("Planet", "Red Planet", RED),
    ("It was Einstein's teacher Hermann Minkowski.", "Albert Einstein", "Who developed general relativity?"),
    ("Sydney (Canberra)", "Canberra", "What is the capital of Australia?"),
    ("Plants take in oxygen.", "oxygen", "Which gas do plants release?"),
    ("Paris, London, Rome", "Paris", "What is the capital of France?"),
    ("Mars.", "Mars", ""),  # nobody knows what is asked
])
def test_names_that_do_not(given: str, expected: str, question: str) -> None:
    assert not names_expected_answer(given, expected, question)
