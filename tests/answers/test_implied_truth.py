"""Sentences that imply yes or no to their question, and those that do not."""

import pytest

from workings.answers.implied_truth import implied_truth

EARTH = "Is the Earth bigger than Mars?"


@pytest.mark.parametrize(("text", "question", "truth"), [
    ("It has twice the diameter, so the Earth is bigger than Mars.", EARTH, "yes"),
    ("The Earth is not bigger than Mars.", EARTH, "no"),
    ("The Earth is bigger than Mars. Jupiter is the largest planet.", EARTH, "yes"),
    ("Vienna is the capital of Austria.", "Is it true that Vienna is the capital of Austria?", "yes"),
    ("Strictly speaking, a berry is a fruit.", "Is a berry strictly a fruit?", "yes"),
    ("The line passes the point (2, 5), which lies on it.", "Does the line y = 3x - 1 pass the point (2, 5)?", "yes"),
    ("So penguins are birds that cannot fly.", "Can penguins fly?", "no"),
    ("A whale is not a fish but a mammal.", "Is a whale a fish?", "no"),
    ("15 / 4 leaves 3, so 15 is not divisible by 4.", "Is 15 divisible by 4?", "no"),
    ("53 has no other divisors, so 53 is a prime number.", "Is 53 a prime number?", "yes"),
    ("There is no largest prime number.", "Is there a largest prime number?", "no"),
    ("Ostriches are birds, but their wings are small, so they are unable to fly.", "Can ostriches fly?", "no"),
    ("Milan is the larger city, but the capital is Rome.", "Is Milan the capital of Italy?", "no"),
    ("The capital of Italy is Rome.", "Is Rome the capital of Italy?", "yes"),
    ("The war ended in 1945: in May in Europe, and in September in Japan.", "Did the war end in 1945?", "yes"),
])
def test_what_implies_a_truth(text: str, question: str, truth: str) -> None:
    assert implied_truth(text, question) == truth


@pytest.mark.parametrize(("text", "question"), [
    ("Mars is bigger than the Earth.", EARTH),
    ("Mars is not bigger than the Earth.", EARTH),
    ("The Earth is bigger than Venus and smaller than Mars.", EARTH),
    ("Some think the Earth is bigger than Mars.", EARTH),
    ("If it were hollow, the Earth would not be bigger than Mars.", EARTH),
    ("The Earth is bigger than Mars only in diameter.", EARTH),
    ("The Earth's shadow is bigger than Mars.", EARTH),
    ("Is the Earth bigger than Mars?", EARTH),
    ("The Earth is bigger than Mars. However, that is hard to say.", EARTH),
    ("Pluto is a dwarf planet.", "Is Pluto a planet?"),
    ("Bats are far from blind.", "Are bats blind?"),
    ("Most birds can fly.", "Can all birds fly?"),
    ("The Earth orbits the Sun.", "Does the Sun orbit the Earth?"),
    ("The Earth does not orbit the Sun.", "Does the Sun orbit the Earth?"),
    ("Gold is not heavier than lead.", "Is gold heavier than silver?"),
    ("15 is not divisible by 2.", "Is 15 divisible by 4?"),
    ("The Titanic was supposed to reach New York.", "Did the Titanic reach New York?"),
    ("Some say that the capital is Rome.", "Is Milan the capital of Italy?"),
    ("Emus are birds, but ostriches are unable to fly far.", "Can emus fly?"),
    ("Water boils.", "Does water boil at 90 degrees at sea level?"),
])
def test_what_implies_none(text: str, question: str) -> None:
    assert implied_truth(text, question) is None
