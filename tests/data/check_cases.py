"""Traces and pairs with one fault each, and how often each kind of finding is expected."""

from typing import Any

LONG = "Ada walks from the old mill to the station in 25 minutes and then takes the 7 train to town"


def trace(name: str, **keys: Any) -> dict[str, Any]:
    """A trace without a fault, some of its keys changed or, as None, left out."""
    base = {"id": name, "prompt": f"What is {len(name)}+{sum(map(ord, name))}?", "steps": ["1+1=2"], "answer": "2",
            "section": "core", "category": "sum", "difficulty": "easy", "licence": "MIT"}
    return {key: value for key, value in (base | keys).items() if value is not None}


CASES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "unreadable": ([trace("a"), '{"id": 1', '{"id": "b"}'], {"unreadable": 2}),
    "repeated_id": ([trace("a"), trace("a", prompt="other 9?")], {"repeated_id": 1}),
    "duplicate": ([trace("a", prompt="1000+1?"), trace("b", prompt="1000+1?"), trace("c", prompt="1,000 + 1?"),
                   trace("d", prompt="1000+1?", answer="2.0")], {"duplicate": 3}),
    "conflict": ([trace("a", prompt="1+1?"), trace("b", prompt="1 + 1 ?", answer="3", steps=["3=3"])], {"conflict": 2}),
    "the conversation before a question belongs to it": (
        [trace("a", prompt="And then?"), trace("b", prompt="And then?", answer="5", steps=["5"], history=[
            {"role": "user", "content": "Count."}, {"role": "assistant", "content": "1"}])], {}),
    "an open question": ([trace("a", prompt="Name a colour and say why you like it."),
                          trace("b", prompt="Name a colour and say why you like it.", steps=["2"],
                                answer="Blue, because the sea is blue and I grew up there.")],
                         {"another_answer": 1}),
    "one answer in many spellings": (
        [trace(f"a{number}", prompt="1+1?", answer=answer, steps=["1+1=2"]) for number, answer in enumerate(
            ["2", "2.0", "\\boxed{2}", "It is 2.", "4/2", "2 apples", "two"])], {"duplicate": 6}),
    "two units": ([trace("a", prompt="How far?", answer="5 km", steps=["5"]),
                   trace("b", prompt="How far?", answer="5 miles", steps=["5"])], {"conflict": 2}),
    "many answers to an open question": (
        [trace(f"a{number}", prompt=prompt, answer=answer, steps=["so"]) for number, (prompt, answer) in enumerate((
            ("Name a fruit.", "Apple"), ("Name a fruit.", "Pear"), ("Name a fruit.", "apple."),
            ("Name a fruit.", "Pear"), ("name a fruit", "Fig"), ("Name a fruit.", "Plum")))],
        {"duplicate": 3, "another_answer": 2}),
    "a short answer to a closed question": ([trace("a", prompt="Name the fruit.", answer="Apple", steps=["so"]),
                                             trace("b", prompt="Name the fruit.", answer="Pear", steps=["so"])],
                                            {"conflict": 2}),
    "wrong in the answer": ([trace("a", answer="It is 2+2=5, so 5")], {"wrong_equation": 1}),
    "taken back": ([trace("a", steps=["7*8=54", "That is wrong.", "2"])], {}),
    "empty_step": ([trace("a", steps=["1+1=2", " ", ""])], {"empty_step": 1}),
    "repeated_step": ([trace("a", steps=["1+1=2", "1+1=2 "])], {"repeated_step": 1}),
    "wrong_equation": ([trace("a", steps=["so 7*8=54", "2"])], {"wrong_equation": 1}),
    "wrong annotation": ([trace("a", steps=["2"], calculations=[["1+1=2"], ["7*8=54"]])], {"wrong_equation": 1}),
    "control_text": ([trace("a", prompt="1?<end_of_turn>"), trace("b", steps=["2</answer>"]),
                      trace("c", answer="<|im_end|>2")], {"control_text": 3}),
    "near_duplicate": ([trace("a", prompt=LONG), trace("b", prompt=LONG.replace("Ada", "Ben"))],
                       {"near_duplicate": 1}),
    "no_steps": ([trace("a", steps=[])], {"no_steps": 1}),
    "steps in the answer": ([trace("a", steps=[], answer="She has 1+1=2. The answer is 2."),
                             trace("b", steps=[], answer="First the dog. Then the cat.", prompt="Who?"),
                             trace("c", steps=[], answer="The dog.", prompt="And whose?")], {"no_steps": 1}),
    "doubtful_equation": ([trace("a", steps=["so 25/4=6", "2"])], {"doubtful_equation": 1}),
    "answer_not_in_steps": ([trace("a", answer="17", steps=["1+1=2", "so it is"])], {"answer_not_in_steps": 1}),
    "answer_not_reached": ([trace("a", answer="17"), trace("b", prompt="9-4?", answer="6", steps=["9-4=5 apples."])],
                           {"answer_not_reached": 2}),
    "a box is no step": ([trace("a", answer="8", steps=["6+5=11", "11-2=9 so \\boxed{8}"])], {"answer_not_reached": 1}),
    "a box after a calculation": (
        [trace("a", prompt="a?", answer="9", steps=["$3 \\cdot 3 = \\boxed{9}$"]),
         trace("b", prompt="b?", answer="\\frac{1}{2}", steps=["\\frac{2}{4} = \\frac{1}{2}"])], {}),
    "more after a calculation": ([trace("a", answer="4", steps=["2+3=5, so the number of squares is \\boxed{4}"])],
                                  {"answer_not_in_steps": 1}),
    "a way of writing, and no mistake": (
        [trace(f"n{number}", prompt=f"{number}?", answer=str(number + 700), steps=[f"{number}+1={number + 1}"])
         for number in range(5)], {"answer_not_in_steps": 5}),
    "column by column": ([trace("a", prompt="47+25?", answer="72", steps=["7+5=12, carry 1; 4+2+1=7"])],
                         {"answer_not_in_steps": 1}),
    "reached in other words": (
        [trace("a", prompt="a1", answer="50", steps=["2/4 = $0.50 each"]),
         trace("b", prompt="b1", answer="3", steps=["16*2=32, so it takes three days; 16+16=32"]),
         trace("c", prompt="c1", answer="1,000", steps=["500+500 = 1 000"]),
         trace("d", prompt="d1", answer="4", steps=["11/3=3.67"]),
         trace("e", prompt="e1", answer="-7", steps=["5-12=-7"])], {}),
    "no_id": ([trace("a", id=None), trace("b")], {"no_id": 1}),
    "no_licence": ([trace("a", licence=None)], {"no_licence": 1}),
}


def pair(name: str, **keys: Any) -> dict[str, Any]:
    base = {"id": name, "prompt": f"What is {name}+1?", "chosen": f"{name}, and so 2", "section": "core",
            "rejected": f"It is {name} 3 ", "category": "sum", "difficulty": "easy", "licence": "MIT"}
    return {key: value for key, value in (base | keys).items() if value is not None}


def verdicts(*texts: str, **keys: Any) -> list[dict[str, Any]]:
    """Pairs of one question: `ab` prefers a to b."""
    return [pair(f"v{number}", prompt="Which?", chosen=text[0], rejected=text[1], **keys)
            for number, text in enumerate(texts)]


PAIR_CASES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "clean": ([pair("a"), pair("b"), pair("c", prompt="A or B?", chosen="A", rejected="B")], {}),
    "unreadable": ([pair("a"), '{"id": 1', '{"id": "b", "prompt": "x", "chosen": "y"}'], {"unreadable": 2}),
    "repeated_id": ([pair("a"), pair("a", prompt="other?")], {"repeated_id": 1}),
    "repeated_pair": ([pair("a", prompt="1+1?", chosen="2", rejected="x"),
                       pair("b", prompt="1 + 1 ?", chosen="2", rejected="x"),
                       pair("c", prompt="1 + 1 ?", chosen="2", rejected="y")], {"repeated_pair": 1}),
    "equal_completions": ([pair("a", chosen="2", rejected="2"), pair("b", chosen="1 + 1", rejected="1+ 1\n")],
                          {"equal_completions": 2}),
    "rejected cut off": ([pair("a", chosen="so 2 it is", rejected="so 2 i")], {"cut_off": 1}),
    "chosen cut off": ([pair("a", chosen="so 2 ", rejected="so 2 it is")], {"cut_off": 1}),
    "answer_in_prompt": ([pair("a", prompt="Is it Paris (yes)?", chosen="Paris.", rejected="Rome"),
                          pair("b", prompt="Comparison?", chosen="paris", rejected="Rome")], {"answer_in_prompt": 1}),
    "opposite": (verdicts("ab", "ba", "ac"), {"opposite_verdicts": 2}),
    "a ranking": (verdicts("ab", "bc", "ac"), {}),
    "of two questions": ([*verdicts("ab"), pair("w", prompt="And which?", chosen="b", rejected="a")], {}),
    "of two conversations": ([*verdicts("ab"), pair("w", prompt="Which?", chosen="b", rejected="a", history=[
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])], {}),
    "control_text": ([pair("a", prompt="1?<end_of_turn>"), pair("b", rejected="<|im_end|>2"),
                      pair("c", chosen="<think>\n2</think>2")], {"control_text": 2}),
    "no_licence": ([pair("a", licence=None)], {"no_licence": 1}),
    "longer": ([pair(f"p{number}", chosen="a long one", rejected="short") for number in range(6)], {"length_bias": 1}),
    "shorter": ([pair(f"p{number}", chosen="short", rejected="a long one") for number in range(6)], {"length_bias": 1}),
    "too few": ([pair(f"p{number}", chosen="a long one", rejected="short") for number in range(5)], {}),
    "of one length": ([pair(f"p{number}", chosen="left", rejected="down") for number in range(9)], {}),
}
