"""May this person download the model: token and licence. Asks the Hub, and so only when asked to go online."""

import os
from collections.abc import Iterator
from pathlib import Path

from workings.doctor.finding import Finding
from workings.hints import pip_install

WHY = "a gated model such as Gemma is downloaded only with a token whose owner has accepted its licence"


def check_hub(model: str, revision: str, online: bool) -> Iterator[Finding]:
    """One or two findings about a model's files.

    Args:
        model: a Hub id, or a directory on this machine; empty where the recipe starts from random weights.
        revision: branch, tag or commit.
        online: whether the Hub may be asked.
    """
    if not model:
        return
    # What is on this machine needs neither a token nor a network, so it is looked for first.
    if Path(model).is_dir():
        yield Finding(id="model", judgement="fine", what=f"{model} is a directory on this machine", why=WHY)
        return
    if _downloaded(model, revision):
        yield Finding(id="model", judgement="fine", what=f"{model} at {revision} has been downloaded", why=WHY)
        return
    if not online:
        yield Finding(id="model", judgement="not checked", why=WHY, mend="workings doctor RECIPE --online",
                      what=f"{model} is not on this machine; token and licence are asked for with --online only")
        return
    yield from _ask(model, revision)


def _downloaded(model: str, revision: str) -> bool:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ModuleNotFoundError:
        return False
    try:
        # Every model has this small file; a second kind of answer says that the Hub is known not to have it.
        return isinstance(try_to_load_from_cache(model, "config.json", revision=revision), str)
    except HFValidationError:
        return False


def _ask(model: str, revision: str) -> Iterator[Finding]:
    try:
        from httpx import HTTPError
        from huggingface_hub import HfApi, get_token
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            HFValidationError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ModuleNotFoundError:
        yield Finding(id="model", judgement="problem", what="huggingface_hub is not installed", why=WHY,
                      mend=pip_install("hub"))
        return
    # That there is a token is said, its value never: findings are shown and packed into records.
    token = "HF_TOKEN is set" if os.environ.get("HF_TOKEN") else (
        "a token is stored on this machine" if get_token() else "there is no token")
    try:
        # Asks for permission without downloading anything; a gated model has a readable page without it.
        HfApi().auth_check(model)
        commit = HfApi().model_info(model, revision=revision).sha
    # Before the error of a missing repository, because this is its subclass.
    except GatedRepoError:
        yield Finding(id="model", judgement="problem", what=f"{model} is gated, and {token}", why=WHY,
                      mend=f"accept the licence at https://huggingface.co/{model}, then: export HF_TOKEN=hf_…")
    except RevisionNotFoundError:
        yield Finding(id="model", judgement="problem", what=f"{model} has no revision {revision}", why=WHY,
                      mend="model.revision=main")
    except (RepositoryNotFoundError, HFValidationError):
        yield Finding(id="model", judgement="problem", why=WHY, what=f"{model} is not found, and {token}",
                      mend="check the spelling of model.id; for a private one: export HF_TOKEN=hf_…")
    except (HfHubHTTPError, HTTPError, OSError) as error:
        yield Finding(id="model", judgement="problem", why=WHY, mend="give model.id a directory on this machine",
                      what=f"the Hub gave no answer about {model} ({type(error).__name__})")
    else:
        yield Finding(id="model", judgement="fine", what=f"{model} at commit {commit} may be downloaded; {token}",
                      why=WHY)
