"""Updates are too small for the format of the weights: no bit changes, and the run is called complete.

Reported: mlx-lm-lora#69, atropos#456.
"""

from proof.silent._harness import Found, right_if, short_run, temporary


def check(engine: str) -> Found:
    """At a rate of 1e-13 in bfloat16 the run says that no update changed a weight."""
    with temporary() as folder:
        run = short_run(engine, folder / "run", {
            "training.learning_rate": 1e-13, "model.shape.family": "llama",
            "precision": {"parameters": "bf16", "compute": "bf16"}})
        said = run.result.training.learned_nothing or run.result.training.reason
    return right_if("no update changed a weight" in said or "changed no weight" in said, said)
