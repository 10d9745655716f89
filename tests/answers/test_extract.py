"""The five rules of extraction, and that no text makes them slow; names and phrases in sentences."""

import time

import pytest

from workings.answers.contains import says
from workings.answers.extract import RULES, Extraction, answer_kind, check_rules, extract
from workings.errors import RequestError

OPTIONS = "Which planet is hottest? (A) Venus (B) Mercury (C) Mars (D) 5%"


@pytest.mark.parametrize(("text", "found", "rule"), [
    ("<reasoning>7+5=12</reasoning><answer>72</answer>", "72", "answer_tag"),
    ("<answer>1</answer> no: <answer> 2 </answer>", "2", "answer_tag"),
    ("<answer></answer>\n#### 9", "9", "hashes"),
    ("steps\n#### 1,234\nmore", "1,234", "hashes"),
    ("so \\boxed{\\frac{1}{2}} is it", "\\frac{1}{2}", "boxed"),
    ("so \\boxed 7.", "7", "boxed"), ("so $a = -\\boxed{256}$.", "-256", "boxed"),
    ("escaped twice: \\\\boxed{\\\\frac{1}{2}}", "\\frac{1}{2}", "boxed"),
    ("The answer is 3.14. Bye", "3.14", "answer_phrase"),
    ("Final answer: **42**", "42", "answer_phrase"),
    ("**Final Answer**\n\n42", "42", "answer_phrase"),
    ("Answer: 5\nAnswer: 6", "6", "answer_phrase"),
    ("2+2=4\nA: 4", "4", "answer_phrase"),
    ('{"answer": 4}', "4", "answer_phrase"),
    ("<think>1+1=2</think>\n\n2", "2", "final_sentence"),
    ("we get 47+25=72", "72", "final_sentence"), ("So it is -3", "-3", "final_sentence"),
    ("costs $1,200.50 in all", "$1,200.50", "final_sentence"), ("half is 1/2", "1/2", "final_sentence"),
    ("3 × 4 = 12, plus 5 is 17.", "12", "final_sentence"), ("It sank in 1912.", "1912", "final_sentence"),
    ("It has **206 bones**. Babies have about 300.", "206", "final_sentence"),
    # A token that ends the text ends the answer, and nothing before it was cut off.
    ("#### 42<|endoftext|>Human: 7?", "42", "hashes"), ("</s> 5<eos>6", "5", "final_sentence"),
    ("5-3", "", "none"), ("no idea", "", "none"), ("", "", "none"), ("\\boxed{never closed", "", "none"),
])
def test_numbers(text: str, found: str, rule: str) -> None:
    assert extract(text, "number") == Extraction(found, rule)


@pytest.mark.parametrize(("text", "found"), [
    # A phrase with a bracket is a phrase, and the last one counts.
    ("We get 0.4 + 0.3 = 0.7. So the answer (arabic numerals) is 0.3.", "0.3"),
    ("The answer (in dollars) is: $12", "$12"),
    # What runs on after an answer does not change it.
    ("The answer is 6. In 2 days he eats 8.", "6"), ("The answer is 676 - 224, which is 452.", "452"),
    ("The answer is 9 (words: nine).", "9"), ("This answer is correct.\n" * 60 + "The answer is 7.", "7"),
    ("The answer is 7.\n" + "This answer is correct.\n" * 60, "7"),
    # No single number is no answer.
    ("It is 5. The answer is 3 or 4.", ""), ("It is 5. The answer is not known.", ""), ("The answer isn't 33.", ""),
    ("The answer is x ≥ 3.", ""), ("It is between 3 and 5.", ""), ("The answer is 42abc", ""),
    ("The answer is 3u + 14.", ""), ("It is 2 + \\frac{1}{2} + \\frac{1}{3} + \\cdots", ""),
    ("x = 1 or x = -6", ""), ("x^2 - 5x + 6 = 0", ""), ("4√5", ""), ("Suppose there are 30.", ""),
    # Groups of digits are one number, or none.
    ("It costs Rs 1,50,000.", "Rs 1,50,000"), ("So the total is 1,23,45,678 rupees.", "1,23,45,678 rupees"),
    ("Das Total ist 150'000.", "150'000"), ("The total is 150_000.", "150_000"), ("The total is 15,0000.", ""),
    ("So 6 x 4 = 24 remained.", "24"), ("Bill is on the 18th floor.", "18"), ("He has 5 on the 3rd day.", "5"),
    ("It costs 1億5000万.", ""), ("It costs 2万円.", "2 万円"), ("الإجابة ١٬٥٠٠", ""),
    ("It costs Rs. 1.5L.", "Rs. 1.5L"), ("It holds 1.5L.", "1.5L"), ("It costs $3 tn.", "$3 tn"), ("It is 2 mil.", ""),
    ("He paid 25 lakh rupees.", "25 lakh rupees"), ("答案是 3万。", "3万"), ("It starts at 4:30.", ""),
    # Words are numbers where no digits are.
    ('The letter "e" occurs twice in the word "here".', "twice"), ("Nobody has one.", "one"),
    ("No one knows.", ""), ("The answer is _____.\n\n$80", "$80"), ("The answer is 1/sqrt(pi).", ""),
])
def test_what_one_number_is(text: str, found: str) -> None:
    assert extract(text, "number").text == found


@pytest.mark.parametrize(("text", "found"), [
    ("The answer is (B).", "B"), ("B", "B"), ("**B.** Mercury", "B"), ("B) Mercury. Option A is larger.", "B"),
    # Hedged, it is still one; two are not, and nothing before them counts.
    ("Among A through D, the answer is most likely B.", "B"), ("The correct answer is probably C, Mars.", "C"),
    ("(B) has the right order. So the answer is (A) and (B).", ""), ("It is A. The answer is A or C.", ""),
    ("The answer is A, B, and D.", ""),
    # A letter with its text, and an option by its text alone.
    ("The answer is D, 5%.", "D"), ('The answer is A, "Venus."', "A"), ("The answer is (C). (b) The volume is 3.", "C"),
    ("The answer is Venus.", "A"), ("So the hottest planet is Venus.", "A"), ("A: Mars is the one", "C"),
    ("Either Venus or Mars.", ""), ("The answer is ... C. Mars", "C"), ("A number of planets are hot.", ""),
])
def test_choices(text: str, found: str) -> None:
    assert extract(text, "choice", question=OPTIONS).text == found


@pytest.mark.parametrize(("text", "found"), [
    ("Yes, because it is.", "yes"), ("No. Canberra is.", "no"), ("So, no.", "no"), ("It is true.", "true"),
    ("Then the answer is yes. Therefore, the answer (Yes or No) is No.", "no"),
    ("Therefore, the answer (Yes or No) is most likely No.", "no"),
    ("Therefore, the answer (Yes or No) is psychiatric patients are welcome.", ""),
    ("The answer is probably yes. Therefore, the answer (Yes or No) is: It depends.", ""),
    ("It is impossible to say for certain.", ""), ("Yes and no.", ""), ("There is no evidence.", ""),
    ("The answer (Yes or No) is not known.", ""), ("Yes, it is. Still, the answer is no.", "no"),
    ("Yes, it seems so. But no, it is not.", ""), ("The answer is False/True.", ""),
])
def test_yes_or_no(text: str, found: str) -> None:
    assert extract(text, "yes_no").text == found


@pytest.mark.parametrize(("text", "found", "rule"), [
    ("Paris", "Paris", "final_sentence"), ("The answer is the Eiffel Tower.", "the Eiffel Tower", "answer_phrase"),
    ("<answer>\nParis\n</answer>", "Paris", "answer_tag"), ("So the answer is > > }.", "> > }", "answer_phrase"),
    ("We get $x^2 + C$.", "x^2 + C", "final_sentence"), ("The area is 10π.", "10π", "final_sentence"),
    ("So the answer is above big dog.", "above big dog", "answer_phrase"),
])
def test_texts(text: str, found: str, rule: str) -> None:
    assert extract(text, "text") == Extraction(found, rule)


@pytest.mark.parametrize(("expected", "question", "kind"), [
    ("12", "", "number"), ("twelve", "", "number"), ("(b)", "", "choice"), ("Venus", OPTIONS, "choice"),
    ("5%", OPTIONS, "choice"), ("True", "", "yes_no"), ("Isaac Newton", "", "name"), ("July 20, 1969", "", "name"),
    ("1969", "When was the landing?", "name"), ("1969", "What is 1900+69?", "number"), ("x + 1", "", "text"),
    ("\\sqrt{2}", "", "text"), ("(1, 2)", "", "text"), ("] ] >", "", "text"),
])
def test_kinds(expected: str, question: str, kind: str) -> None:
    assert answer_kind(expected, question) == kind


def test_what_a_cut_off_text_ends_with_is_no_answer() -> None:
    for text in ("#### 12", "The answer is 12", "So it is 12", "<answer>12"):
        assert extract(text, "number", truncated=True).text == ""
    assert extract("So it is 12. And then", "number", truncated=True).text == "12"
    assert extract("<answer>12</answ", "number").text == "12"


def test_rules_may_be_chosen() -> None:
    assert extract("The answer is 5.", "number", ("answer_tag", "boxed")) == Extraction("", "none")
    assert extract("#### 5 \\boxed{6}", "number", ("boxed",)).text == "6"
    with pytest.raises(RequestError, match="last_number"):
        check_rules(("last_number",))
    check_rules(tuple(RULES))


@pytest.mark.parametrize("piece", ["#### ", "\\boxed{", "the answer is ", "Answer:\n", "3 or ", "1,", "= 5 ", "**7** ",
                                   "<answer>", "Yes. ", "(A) ", "the ", "12 ", "a_", "one ", "((", "$1$ ", "because "])
def test_no_text_is_slow(piece: str) -> None:
    text = piece * (50_000 // len(piece))
    begun = time.process_time()
    for kind in ("number", "choice", "yes_no", "name", "text"):
        extract(text, kind, question=OPTIONS)
    assert time.process_time() - begun < 2


SAID = [
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
]
NOT_SAID = [
    ("It is not Paris.", "Paris"), ("It isn't in Paris.", "Paris"), ("It is Paris or Rome.", "Paris"),
    ("It is Rome or Paris.", "Paris"), ("Neither Paris nor Rome.", "Paris"),
    ("Rome rather than Paris.", "Paris"), ("It could be Paris, Rome or Madrid.", "Paris"),
    ("Paris is wrong.", "Paris"),
    ("It is invalid.", "valid"), ("The parish of Rome.", "Paris"),
    ("It was July 21, 1969.", "July 20, 1969"), ("", "Paris"), ("Paris", ""),
]


@pytest.mark.parametrize(("text", "expected", "found"), [
    *((*row, True) for row in SAID), *((*row, False) for row in NOT_SAID)])
def test_what_is_said(text: str, expected: str, found: bool) -> None:
    assert says(text, [expected]) is found
