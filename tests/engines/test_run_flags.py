"""Hand-computed cases, generation and a resumed run once more, compiled with the options that a run has.

All other tests of this process compile with few optimizations (`tests/conftest.py`), and options are read once in a
process, so these run in their own pytest. In `make test` the quickstart's test trains with a run's options.
"""

import pytest

CASES = ("test_hand_computed.py", "test_generate.py", "test_jax_lora.py")


@pytest.mark.full
def test_they_pass_with_the_options_of_a_run(run_python, repository) -> None:
    words = [f"tests/engines/{case}" for case in CASES]
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *words, cwd=repository,
                      environment={"RUN_FLAGS": "1"})
    assert " passed" in done.stdout
    assert " failed" not in done.stdout
