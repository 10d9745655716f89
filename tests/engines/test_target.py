"""The step compiled for a TPU that is not here, in a child process."""



from workings.engines.jax.target import refused_bytes


def test_the_compilers_refusal_is_read() -> None:
    text = ("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 28.59G of 15.75G hbm. Exceeded hbm capacity by 12.84G.")
    assert refused_bytes(text) == (int(28.59 * 2 ** 30), int(15.75 * 2 ** 30))
    assert refused_bytes("INTERNAL: something else") == (0, 0)


