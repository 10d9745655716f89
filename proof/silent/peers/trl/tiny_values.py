"""Pairs of tiny values, as `accuracy_reward` scores them."""
from _tiny import say
from trl.rewards import accuracy_reward

pairs = ((r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"), (r"\frac{1}{2^{99}}", r"-\frac{1}{2^{99}}"), ("e^{-50}", "e^{-51}"),
         ("(0.1)^{20}", "(0.1)^{21}"))
told = [tuple(accuracy_reward([[{"role": "assistant", "content": f"\\boxed{{{x}}}"}]], [f"${left}$"])[0]
              for x in (left, right)) for left, right in pairs]
say("right" if {*told} == {(1.0, 0.0)} else "wrong", f"itself and another value: {told}")
