"""Numbers that are grouped otherwise than by thousands, as `accuracy_reward` scores a fragment of them."""
from _tiny import say
from trl.rewards import accuracy_reward

cases = {"1,50,000": ("150000", ("1", "000", "50")), "10,00,000": ("1000000", ("10", "0")), "150'000": ("150000", ("150", "0")),
         "1 50 000": ("150000", ("1", "50"))}


def paid(text, expected):
    return accuracy_reward([[{"role": "assistant", "content": f"So it is \\boxed{{{text}}}."}]], [f"${expected}$"])[0] == 1.0


parts = [f"{text} for {part}" for text, (_, fragments) in cases.items() for part in fragments if paid(text, part)]
whole = sum(paid(text, expected) for text, (expected, _) in cases.items())
say("wrong" if parts else "right", f"{whole} of {len(cases)} whole numbers are read; paid are {parts}")
