"""Every completion is cut off, nothing can be learned, and the run ends as a success.

Reported: trl#5697, unsloth#2614.
"""

from proof.silent._harness import Found, right_if, short_run, temporary

REWARDED = {"algorithm": {"name": "grpo", "group": 4, "max_new_tokens": 2}, "rewards": [{"scorer": "answer"}],
            "training.steps": 2}


def check(engine: str) -> Found:
    """The run says that all completions were cut off and that nothing was learned."""
    with temporary() as folder:
        run = short_run(engine, folder / "run", REWARDED)
        said = run.result.training.learned_nothing
    return right_if("cut off" in said and "no update changed a weight" in said, said)
