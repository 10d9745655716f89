"""Numbers that are grouped otherwise than by thousands, as the rewards `accuracy` and `verifiable` score a fragment of them."""
from _tiny import say
from soup_cli.trainer.rewards import accuracy_reward, math_verify_reward

cases = {"1,50,000": ("150000", ("1", "000", "50")), "10,00,000": ("1000000", ("10", "0")), "150'000": ("150000", ("150", "0")),
         "1 50 000": ("150000", ("1", "50"))}


def paid(reward, text, expected):
    return reward([[{"role": "assistant", "content": f"So it is \\boxed{{{text}}}."}]], answer=[expected])[0] == 1.0


parts, whole = [], 0
for reward in (accuracy_reward, math_verify_reward):
    parts += [f"{text} for {part}" for text, (_, fragments) in cases.items() for part in fragments if paid(reward, text, part)]
    whole += sum(paid(reward, text, expected) for text, (expected, _) in cases.items())
say("wrong" if parts else "right", f"{whole} of {2 * len(cases)} whole numbers are read; paid are {parts}")
