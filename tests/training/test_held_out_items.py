"""Held-out items next to rewards: asked greedily in batches, marked one by one."""

import pytest

from tests.doubles import adding_model
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.training.observer import HeldOutObserver

ITEMS = [Item(id=f"add-{a}", prompt=f"What is {a}+2?", expected_answer=str(a + 2)) for a in range(6)]


class Judge:
    """As the scoring process, in this one: right where the last number is."""

    def judge(self, completions):
        return [Judgement(score=float(text.endswith(f"<answer>{item.expected_answer}</answer>")))
                for item, text, _ in completions]


def observer(scorer):
    model = adding_model()
    return HeldOutObserver(engine=model.engine, batches=[], questions=[], items=ITEMS,
                           tokenizer=model.tokenizer, template=model.template, max_new_tokens=100, batch_size=4,
                           scorer=scorer, every_steps=2, last_step=3, log_sample=pytest.fail)


def test_every_item_has_its_mark_in_the_line_of_a_step():
    # The model is wrong where the first number is a multiple of 4.
    observed = observer(Judge())
    assert [observed.is_due(step) for step in (1, 2, 3)] == [False, True, True]
    assert observed.evaluate(object(), 2) == {
        "held_out_score": 4 / 6, "held_out_items": 6, "held_out_right": "011101"}
    assert [len(call["prompts"]) for call in observed.engine.calls] == [4, 2]
