"""The step compiled for a TPU that is not here, in a child process."""



from workings.engines.jax.target import largest_arrays, refused_bytes


def test_the_compilers_refusal_is_read() -> None:
    text = ("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 28.59G of 15.75G hbm. Exceeded hbm capacity by 12.84G.")
    assert refused_bytes(text) == (int(28.59 * 2 ** 30), int(15.75 * 2 ** 30))
    assert refused_bytes("INTERNAL: something else") == (0, 0)


def test_the_largest_arrays_of_a_module_are_listed_with_their_bytes() -> None:
    text = "%a = f32[2,3]{1,0} add(bf16[4,8]{1,0} %x, pred[7] %y), s32[] %z"
    assert largest_arrays(text, 2) == {"bf16[4,8]": 64, "f32[2,3]": 24}
