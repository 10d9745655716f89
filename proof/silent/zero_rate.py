"""The only update of a run has a learning rate of 0, and the run is called a success.

Reported: transformers#34754 and gpt-neox#1373 (the first update of a warm-up has a rate of 0).
"""

from proof.silent._harness import Found, right_if, short_run, temporary


def check(engine: str) -> Found:
    """One step of a cosine that ends at 0: the run says that nothing was learned."""
    with temporary() as folder:
        said = short_run(engine, folder / "run", {"training.steps": 1, "training.schedule": "cosine"}
                         ).result.training.learned_nothing
    return right_if("no update changed a weight" in said, said)
