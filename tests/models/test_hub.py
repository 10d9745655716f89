"""Models by their Hub ids, from a Hub that runs here: the commit is what is recorded, the tensors come last."""

import json

import pytest

from tests.models.hub_server import COMMIT, GATED, REPOSITORY, hub

# No two alike: the Hub's library downloads equal files once.
FILES = {"config.json": b"{}", "tokenizer.json": b"[]", "model.safetensors": b"tensors", "pytorch_model.bin": b"pickle",
         "LICENSE": b"free", "USE_POLICY.md": b"terms", "added_tokens.json": b'{"<extra>": 1}',
         "tokenizer.model": b"pieces"}
CODE = """
import json, sys
from workings.errors import RequestError
from workings.models.hub import weights_directory
for asked in sys.argv[1:]:
    name, revision, tensors = asked.split()
    try:
        directory, commit = weights_directory(name, revision, tensors=tensors == "True")
        print(json.dumps([sorted(file.name for file in directory.iterdir()), commit]))
    except RequestError as error:
        print(json.dumps(str(error)))
"""


@pytest.fixture
def ask(run_python, tmp_path):
    """Asks in a child, because the address of the Hub is read when its library is imported."""
    def run(*asked, address="", offline=False):
        environment = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1" if offline else "0",
                       "HF_HUB_DISABLE_XET": "1", "HF_TOKEN_PATH": str(tmp_path / "no-token")}
        if address:
            environment["HF_ENDPOINT"] = address
        done = run_python("-c", CODE, *asked, environment=environment)
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


@pytest.mark.parametrize("revision", ["main", *(pytest.param(name, marks=pytest.mark.full) for name in ("v1", COMMIT))])
def test_the_commit_is_recorded_whatever_was_asked_for_and_nothing_is_pickled(ask, revision):
    """What judges a run is downloaded before the tensors."""
    with hub(FILES) as (address, asked):
        (without, recorded), (names, _) = ask(f"{REPOSITORY} {revision} False", f"{REPOSITORY} {COMMIT} True",
                                              address=address)
    assert recorded == COMMIT
    assert names == ["LICENSE", "USE_POLICY.md", "added_tokens.json", "config.json", "model.safetensors",
                     "tokenizer.json", "tokenizer.model"]
    assert without == [name for name in names if name != "model.safetensors"]
    assert "pytorch_model.bin" not in asked
    assert (asked[-1], asked.count("config.json")) == ("model.safetensors", 1)
    # And again without a network, from the cache.
    assert ask(f"{REPOSITORY} {revision} True", offline=True) == [[names, COMMIT]]


def test_refusals_say_what_to_do(ask):
    with hub(FILES) as (address, _):
        refused = ask(f"{GATED} main True", f"{REPOSITORY} v9 True", "someone/else main True", address=address)
    refused += ask(f"{REPOSITORY} main True", address="http://127.0.0.1:9")
    for message, said in zip(refused, ("licence you have accepted", "a branch, tag or commit",
                                       "a repository that your token can see", "downloaded: "), strict=True):
        assert said in message
