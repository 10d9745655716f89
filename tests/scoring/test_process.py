"""The process that scores, seen from outside: it may be gone at any moment."""

from workings.scoring.items import Item
from workings.scoring.process import ScoringProcess
from workings.scoring.settings import ScoringSettings

ITEM = Item(id="one", prompt="1+1?", expected_answer="2")


def test_a_process_that_died_between_two_requests_is_replaced() -> None:
    with ScoringProcess(ScoringSettings()) as scoring:
        assert scoring.judge([(ITEM, "#### 2", False)])[0].score == 1
        assert scoring._child is not None
        scoring._child.kill()
        scoring._child.wait()
        for _ in range(3):
            assert scoring.judge([(ITEM, "#### 2", False)])[0].score == 1
