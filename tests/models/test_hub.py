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
from workings.models.hub import weights_directory
directory, revision = weights_directory(sys.argv[1], sys.argv[2], tensors=sys.argv[3] == "True")
print(json.dumps([sorted(file.name for file in directory.iterdir()), revision]))
"""


@pytest.fixture
def ask(run_python, tmp_path):
    """Asks in a child, because the address of the Hub is read when its library is imported."""
    def run(*words, address="", offline=False, code=CODE):
        environment = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1" if offline else "0",
                       "HF_HUB_DISABLE_XET": "1", "HF_TOKEN_PATH": str(tmp_path / "no-token")}
        if address:
            environment["HF_ENDPOINT"] = address
        return run_python("-c", code, *words, environment=environment, check=False)
    return run


def answer(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("revision", ["main", pytest.param("v1", marks=pytest.mark.full), COMMIT])
def test_the_commit_is_recorded_whatever_was_asked_for_and_nothing_is_pickled(ask, revision):
    with hub(FILES) as (address, asked):
        names, recorded = answer(ask(REPOSITORY, revision, "True", address=address))
    assert recorded == COMMIT
    assert names == ["LICENSE", "USE_POLICY.md", "added_tokens.json", "config.json", "model.safetensors",
                     "tokenizer.json", "tokenizer.model"]
    assert "pytorch_model.bin" not in asked
    # and again without a network, from the cache
    assert answer(ask(REPOSITORY, revision, "True", offline=True)) == [names, COMMIT]


def test_what_judges_a_run_is_downloaded_before_the_tensors(ask):
    with hub(FILES) as (address, asked):
        names, recorded = answer(ask(REPOSITORY, "main", "False", address=address))
        assert (names, recorded) == (sorted({*FILES} - {"model.safetensors", "pytorch_model.bin"}), COMMIT)
        assert "model.safetensors" not in asked
        assert "model.safetensors" in answer(ask(REPOSITORY, recorded, "True", address=address))[0]
    assert asked.count("config.json") == 1


@pytest.mark.parametrize(("name", "revision", "said"), [
    (GATED, "main", "licence you have accepted"), (REPOSITORY, "v9", "a branch, tag or commit"),
    ("someone/else", "main", "a repository that your token can see")])
def test_refusals_say_what_to_do(ask, name, revision, said):
    with hub(FILES) as (address, _):
        done = ask(name, revision, "True", address=address)
    assert "RequestError" in done.stderr
    assert said in done.stderr


def test_no_network_and_nothing_downloaded_is_said(ask):
    done = ask(REPOSITORY, "main", "True", address="http://127.0.0.1:9")
    assert "RequestError" in done.stderr
    assert "is neither a folder here nor downloaded" in done.stderr
    assert "an earlier download, or a reachable Hub" in done.stderr
