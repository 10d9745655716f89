"""A score halves because answers are cut off, and the report does not say so.

Reported: tpu-inference#2332, vllm#48253.
"""

from proof.silent._harness import Found, right_if, short_run, temporary


def check(engine: str) -> Found:
    """An evaluation with two tokens an answer says next to its score that the answers were cut off."""
    with temporary() as folder:
        run = short_run(engine, folder / "run", {"training.steps": 1, "evaluation": {
            "items": "addition", "max_new_tokens": 2, "samples": 0, "base": False}})
        said = [line for line in run.result.sentence().splitlines() if "cut off" in line]
    return right_if(said, said[0] if said else "the score is alone")
