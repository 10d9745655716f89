"""What became of the pairs over a run, from its log."""

import pytest

from workings.ways.parts.preference_change import preference_change


def test_the_last_tenth_is_compared_with_the_first() -> None:
    """Of 20 steps two and two. With beta 0.1 a reward of -0.4 is a log probability of -4 nats."""
    lines = [{"accuracy": 0.5, "margin": 0.0, "chosen_reward": 0.0, "rejected_reward": 0.0} for _ in range(18)] + [
        {"accuracy": 1.0, "margin": 0.5, "chosen_reward": -0.3, "rejected_reward": -0.8},
        {"accuracy": 0.5, "margin": 0.7, "chosen_reward": -0.5, "rejected_reward": -1.2}]
    change = preference_change(lines, beta=0.1)
    assert change is not None
    assert change.facts() == pytest.approx({"accuracy": 0.75, "margin": 0.6, "chosen_nats": -4.0,
                                            "rejected_nats": -10.0, "chosen_fell": True})
    assert "The chosen ones fell" in change.sentence
    rising = preference_change([*lines[:18], *({**line, "chosen_reward": 0.2} for line in lines[18:])], beta=0.1)
    assert rising is not None
    assert (rising.chosen_fell, "fell" in rising.sentence) == (False, False)
    assert preference_change(lines[:1], beta=0.1) is None
