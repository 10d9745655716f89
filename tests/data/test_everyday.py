"""Questions of the quickstart: every step holds, nothing is asked that was shown, and a seed names the same data."""

from math import prod

from workings.data.generators.base import items_bytes
from workings.data.generators.everyday import UNITS, make_facts, make_units
from workings.data.traces import traces_bytes
from workings.record.digest import bytes_digest


def test_steps_lead_to_the_answer():
    traces, _ = make_units(600, 200, 17)
    for trace in traces:
        tens, ones, total = (step.split(" ")[0].split("=") for step in trace.steps)
        products = [prod(map(int, each.split("*"))) for each in (tens[0], ones[0])]
        assert [int(tens[1]), int(ones[1])] == products
        assert f"{products[0]}+{products[1]}" == total[0]
        assert trace.answer == total[1] == str(sum(products))
        assert trace.steps[-1].endswith(f" {trace.category}")
    assert {trace.category for trace in traces} == {unit for _, unit in UNITS.values()}


def test_no_question_is_asked_that_was_shown():
    for traces, items in (make_units(610, 200, 17), make_facts(50, 17)):
        shown, asked = {trace.prompt for trace in traces}, {item.prompt for item in items}
        assert len(shown) == len(traces)
        assert len(asked) == len(items)
        assert not shown & asked


def test_a_seed_names_the_same_data_for_good():
    traces, items = make_units(300, 200, 17)
    facts, asked = make_facts(50, 17)
    assert bytes_digest(traces_bytes([*traces, *facts])) == (
        "05280922e91cfc86c60687c68dfc2554e7401e9d7895331c9abce97b4e603e08")
    assert bytes_digest(items_bytes([*items, *asked])) == (
        "ebf02e36d77232dce8dd3ef19dea4b5be67223a5c281a28aeee630e74ee0c470")
    assert make_units(300, 200, 18)[0] != traces
