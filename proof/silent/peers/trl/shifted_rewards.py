"""A reward function that gives one number fewer than there are completions."""
from _grpo import grpo
from _tiny import say

try:
    grpo(lambda completions, **more: [1.0] * (len(completions) - 1)).train()
    say("wrong", "three rewards for four completions are taken")
except (ValueError, RuntimeError, AssertionError) as error:
    say("refused", " ".join(str(error).split())[:150])
