"""One answer that cannot be read adds a second score: all later rewards of the batch belong to another completion.

Reported: NeMo-RL#3635.
"""

from proof.silent._harness import Found, refused, right_if, temporary
from tests.scoring.test_rewards import sample, settings
from workings.scoring.rewards import RewardProcess

SHORT = "def short(prompts, completions, **columns):\n    return [1.0 for text in completions if text]\n"


def check() -> Found:
    """Scores of five texts, two without an answer, by their places; a function that leaves one out is refused."""
    texts = ["12", "", "13", "no number", "12"]
    with temporary() as folder:
        (folder / "own.py").write_text(SHORT)
        with RewardProcess(settings("answer", form="answer_only")) as process:
            values = [one["answer"] for one in process.score([sample(text) for text in texts])]
        with RewardProcess(settings("own.py:short", base=folder)) as process:
            fewer = refused(lambda: process.score([sample(text) for text in texts]), "4", "5")
    return right_if(values == [1, 0, 0, 0, 1] and fewer.verdict == "refused", f"{values}; {fewer.evidence[:90]}")
