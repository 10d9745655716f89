"""Names and phrases in sentences."""

import pytest

from workings.answers.contains import says


@pytest.mark.parametrize(("text", "expected"), [
    ("'Steps in Time' is an autobiography by Fred Astaire.", "Fred Astaire"),
    ("The country with the region Plzeň is the Czech Republic.", "Czech Republic"),
    ("It was signed on July 20, 1969.", "20 July 1969"), ("It has six of them.", "6"),
    ("It has 27.", "Twenty-seven"),
    ("Wilhelm Conrad Röntgen got it.", "Wilhelm Röntgen"), ("That was Roentgen of São Paulo's Sao", "Sao"),
    ("It is the rearview mirror.", "rear-view mirror"), ("Called isAuthority12.", "authority"),
    ("Red, green and blue are.", "blue, red and green"), ("They are echidnas.", "Echidna"),
    ("It is in the Netherlands1.", "in the Netherlands"),
    ("It is put up in late November.", "late November or early December"),
    ("Aluminium is a non-ferrous metal.", "non-ferrous"),
])
def test_what_is_said(text: str, expected: str) -> None:
    assert says(text, [expected])


@pytest.mark.parametrize(("text", "expected"), [
    ("It is not Paris.", "Paris"), ("It isn't in Paris.", "Paris"), ("It is Paris or Rome.", "Paris"),
    ("It is Rome or Paris.", "Paris"), ("Neither Paris nor Rome.", "Paris"),
    ("Rome rather than Paris.", "Paris"), ("It could be Paris, Rome or Madrid.", "Paris"),
    ("Paris is wrong.", "Paris"),
    ("It is invalid.", "valid"), ("The parish of Rome.", "Paris"),
    ("It was July 21, 1969.", "July 20, 1969"), ("", "Paris"), ("Paris", ""),
])
def test_what_is_not(text: str, expected: str) -> None:
    assert not says(text, [expected])
