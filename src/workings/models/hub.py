"""Model files from a local directory or the Hugging Face Hub; safetensors only, nothing is unpickled."""

from pathlib import Path

from workings.errors import RequestError, first_line
from workings.hints import pip_install

TOKENIZER_FORMS = ("tokenizer.model", "added_tokens.json", "vocab.json", "merges.txt")
"""Other forms of the tokenizer, which other tools read, such as Gemma's GGUF converter."""
TERMS = ("LICENSE*", "USE_POLICY*", "NOTICE*")
"""Terms of use."""
SMALL = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
         "*processor_config.json", "chat_template.jinja", "README.md", *TOKENIZER_FORMS, *TERMS)
"""Files of some megabytes at most: configuration, tokenizer and terms of use."""
PATTERNS = ("*.safetensors", "*.safetensors.index.json", *SMALL)
"""Files that are downloaded from a repository. Pickled weights (`*.bin`) never are."""
LOCAL = "local directory"
"""Revision of files that are on this machine."""
GGUF = "GGUF file of SHA-256 "
"""Revision, followed by the digest, of weights that were converted from a GGUF file of this machine."""


def is_local(revision: str) -> bool:
    """Whether weights of this revision are on this machine only."""
    return revision == LOCAL or revision.startswith(GGUF)


def weights_directory(name: str, revision: str, *, tensors: bool = True) -> tuple[Path, str]:
    """A local directory with a model's files, and their commit.

    ``name`` is a directory, or a Hub id such as ``google/gemma-2b``; ``revision`` is a branch, tag or commit of the
    Hub's. Without ``tensors`` only `SMALL` files are downloaded. Raises `RequestError` if there is neither a directory
    nor a reachable repository, or the licence of a gated one is not accepted.
    """
    local = Path(name)
    if local.is_dir():
        return local, LOCAL
    absent = f"there is no folder {name}"
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError:
        raise RequestError(absent, "an existing local directory; the Hub needs the package huggingface_hub",
                           pip_install("hub")) from None
    try:
        wanted = list(PATTERNS if tensors else SMALL)
        directory = Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    # Subclasses come before their base classes.
    except errors.GatedRepoError:
        raise RequestError(f"{name} is gated",
                           "a repository whose licence you have accepted and a token that may read it",
                           f"open https://huggingface.co/{name}, accept the licence, then set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise RequestError(f"{name} has no revision {revision}", "a branch, tag or commit of that repository",
                           "set `model.revision: main`") from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise RequestError(absent, "a local directory or the id of a repository that your token can see",
                           "check the spelling; for a private or gated one set HF_TOKEN") from None
    except (errors.LocalEntryNotFoundError, errors.HfHubHTTPError, OSError) as error:
        raise RequestError(f"{name} is neither a folder here nor downloaded: {first_line(error)}",
                           "a local directory, an earlier download, or a reachable Hub",
                           "give a local directory, as `save_pretrained` writes it") from None
    return directory, directory.name  # the Hub's cache names a snapshot by its commit
