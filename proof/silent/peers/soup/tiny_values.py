"""Pairs of tiny values, as the rewards `accuracy` and `verifiable` score them; its documents name no tolerance."""
from _tiny import say
from soup_cli.trainer.rewards import accuracy_reward, math_verify_reward

pairs = ((r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"), ("1e-30", "1e-29"), ("1e-9", "-1e-9"), ("0.00001", "0.00003"))
told = {reward.__name__: [tuple(reward([[{"role": "assistant", "content": f"\\boxed{{{x}}}"}]], answer=[left])[0]
                                for x in (left, right)) for left, right in pairs]
        for reward in (accuracy_reward, math_verify_reward)}
say("right" if all({*one} == {(1.0, 0.0)} for one in told.values()) else "wrong", f"itself and another value: {told}")
