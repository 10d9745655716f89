"""`push`: a run's exported model, its model card and its evidence pack as one commit on the Hugging Face Hub."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RequestError, first_line
from workings.evidence.pack.form import BY_DIGEST
from workings.evidence.pack.sources import model_facts
from workings.hints import pip_install
from workings.models.families.standard import GEMMA_TERMS
from workings.models.json_file import read_object
from workings.publish.export import GGUF, ORIGIN_FILE, export_run, published_id
from workings.publish.model_card import model_card
from workings.publish.pack import pack
from workings.record import layout
from workings.record.canonical import read_json
from workings.record.digest import file_digest
from workings.record.reader import RunRecord
from workings.runs.open_model import starting_weights

RECORD = "record.zip"
"""The evidence pack in the repository: without checkpoints' tensors, which are there by their digests."""
PERMISSIVE = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "isc", "cc0-1.0", "cc-by-4.0", "unlicense")
"""Licences, by the Hub's names, that let anyone pass a changed model on."""
GEMMA = "gemma"
_HUB_NAMES = {"apache license 2.0": "apache-2.0", "mit license": "mit", GEMMA_TERMS.lower(): GEMMA}
_ON_THE_HUB = re.compile(r"(llama[0-9.]+|gpl-[23]\.0|cc-by(-[a-z]+)+-4\.0|openrail(\+\+)?)")
"""Further licences that the Hub has a name for; all others are ``other`` with a name."""
_GEMMA_NOTICE = "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms\n"
_GEMMA_USE = ("The terms of Gemma hold for this model and for everything made of it: "
              "<https://ai.google.dev/gemma/terms>, with the uses that they forbid: "
              "<https://ai.google.dev/gemma/prohibited_use_policy>. The weights were changed by training.")
_TEXTS = (layout.PREDICTIONS, layout.KEPT, layout.PAIRS, layout.PROMPTS, layout.GIVEN_TRACES, layout.GIVEN_ITEMS)


@dataclass(frozen=True, kw_only=True)
class PushRequest:
    """A request to push to the repository OWNER/NAME; fields are the options of `workings push`."""

    repo: str
    run: Path | None = None
    licence: str = ""
    accept_terms: bool = False
    private: bool = False


@dataclass(frozen=True, kw_only=True)
class Push:
    """Everything that is about to be uploaded, in a folder that lasts as long as the command."""

    request: PushRequest
    run: str
    files: dict[str, Path | bytes]
    """Name in the repository -> a file, or its contents."""
    sizes: dict[str, int]
    """Name in the repository -> bytes."""
    card: str
    licence: str
    """By its name on the Hub; empty for a model from random weights without ``--license``."""
    root: str
    """Of the evidence pack."""
    texts: tuple[tuple[str, int], ...]
    """Files of the evidence pack that hold questions, answers or completions, with their bytes."""

    def to_json(self) -> dict[str, Any]:
        """Keys of `push --json`."""
        return {"repo": self.request.repo, "private": self.request.private, "run": self.run, "files": self.sizes,
                "licence": self.licence, "root": self.root, "card": self.card, "texts": dict(self.texts)}


def prepare(path: Path, request: PushRequest, folder: Path) -> Push:
    """Make everything that belongs on the Hub in a folder; nothing is uploaded.

    Args:
        path: a sealed and complete run, or a folder that `export` wrote from one.
        request: where to, and on which terms.
        folder: an empty one, for the exported model and the evidence pack.

    Raises:
        RequestError: no such run or folder, a changed folder, an incomplete run, a malformed name, or a licence that is
            unknown, or not permissive and not accepted by the user.
        RecordError: the run does not verify.
    """
    _check_name(request.repo)
    is_export = (path / ORIGIN_FILE).is_file()
    if not is_export and request.run is not None:
        raise RequestError(f"--run {request.run} needs an exported folder, and {path} is not one", "the run that a "
                           "folder was exported from", "leave --run out")
    if not is_export and not (path / layout.SEAL).is_file():
        raise RequestError(f"{path} is neither a sealed run nor an exported folder", "a run that has ended, or what "
                           "`workings export` wrote", "workings runs lists runs; workings train RECIPE --out RUN "
                           "--resume ends one")
    run = _run_of_export(path, request.run) if is_export else RunRecord.open(path)
    if run.status != "complete":
        raise RequestError(f"{run.path} is {run.status}: {run.manifest.status_reason}", "a complete run",
                           "workings train RECIPE --out RUN --resume")
    licence = licence_of(run, request)
    model = path if is_export else export_run(path, folder / "model").directory
    packed = pack([run.path], folder / RECORD, weights=BY_DIGEST)
    files: dict[str, Path | bytes] = {file.relative_to(model).as_posix(): file for file in sorted(model.rglob("*"))
                                      if file.is_file()}
    if licence == GEMMA:
        files.setdefault("NOTICE", _GEMMA_NOTICE.encode())
    library = "gguf" if str(read_object(model / ORIGIN_FILE).get("format")).startswith(GGUF) else "transformers"
    card = _card(run, licence, library, packed.root)
    files |= {layout.README: card.encode(), RECORD: folder / RECORD}
    sizes = {name: len(file) if isinstance(file, bytes) else file.stat().st_size
             for name, file in sorted(files.items())}
    texts = tuple((name, size) for name, size in packed.entries if name.endswith(_TEXTS)
                  or f"/{layout.ROLLOUTS}/" in name or (name.startswith("data/") and name.endswith(".jsonl")))
    return Push(request=request, run=run.manifest.name, files=files, sizes=sizes, card=card, licence=licence,
                root=packed.root, texts=texts)


def upload(push: Push) -> str:
    """Upload as one commit, which replaces files of the same names, and give its address.

    Raises `RequestError`: no token, a token without the right, a public repository for ``private``, or no Hub there.
    """
    import httpx
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError

    request = push.request
    if get_token() is None:
        raise RequestError("no token of the Hugging Face Hub is on this machine", f"a token that may write to "
                           f"{request.repo}", "hf auth login, or export HF_TOKEN=hf_…")
    api = HfApi()
    operations = [CommitOperationAdd(name, file if isinstance(file, bytes) else str(file))
                  for name, file in sorted(push.files.items())]
    try:
        api.create_repo(request.repo, private=request.private or None, exist_ok=True)
        if request.private and not api.model_info(request.repo).private:
            raise RequestError(f"--private cannot change {request.repo}: it is public", "a private repository or a new "
                               "name", "make it private on its page, or leave --private out")
        commit = api.create_commit(request.repo, operations, commit_message=f"{push.run}, with its record {push.root}")
    except HfHubHTTPError as error:
        raise RequestError(f"the Hub refuses {request.repo}: {first_line(error)}", "a token that may write there",
                           "hf auth whoami shows whose token it is") from None
    except (ValueError, RuntimeError, OSError, httpx.HTTPError) as error:
        raise RequestError(f"the upload to {request.repo} failed: {first_line(error)}", "a Hub that can be reached and "
                           "takes every file", "the same command later: what is there is not sent again") from None
    return str(commit.commit_url)


def _check_name(repo: str) -> None:
    try:
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined] # documented, not re-exported
    except ModuleNotFoundError:
        raise RequestError("the package huggingface_hub is not installed", "the package that uploads to the Hub",
                           pip_install("hub")) from None
    reason = "" if repo.count("/") == 1 else "it must be OWNER/NAME"
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        reason = first_line(error)
    if reason:
        raise RequestError(f"{repo} is no name of a repository: {reason}", "OWNER/NAME, the owner being you or your "
                           "organization", "workings push RUN OWNER/NAME")


def _run_of_export(folder: Path, named: Path | None) -> RunRecord:
    """The run that an exported folder was made from; every file has to be as it was exported."""
    origin = read_object(folder / ORIGIN_FILE)
    name, root, digests = origin.get("run"), origin.get("made_from"), origin.get("files")
    if not isinstance(name, str) or not isinstance(digests, dict):
        raise RequestError(f"{folder / ORIGIN_FILE} is not what export writes", "a folder of `workings export`")
    found = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    found.pop(ORIGIN_FILE)
    for file in sorted(found.keys() | digests.keys()):
        problem = ""
        if file not in found:
            problem = "is missing"
        elif file not in digests:
            problem = "was not exported"
        elif file_digest(found[file]) != digests[file]:
            problem = "was changed"
        if problem:
            raise RequestError(f"{folder / file} {problem}", "the files that were exported and no others",
                               "workings export RUN --out FOLDER")
    path = named or Path("runs") / name
    if not (path / layout.SEAL).is_file():
        raise RequestError(f"the run that {folder} was made from is not at {path}", "the sealed run, from which card "
                           "and evidence are made", "--run RUN")
    run = RunRecord.open(path)
    if run.root != root:
        raise RequestError(f"{path} is not the run that {folder} was made from", f"the run of root {root}", "--run RUN")
    return run


def licence_of(run: RunRecord, request: PushRequest) -> str:
    """The model's licence by its name on the Hub; empty for random weights without a given one.

    Raises `RequestError`: the base's licence is unknown, or is not permissive and its terms were not accepted.
    """
    given = _hub_name(request.licence)
    if run.manifest.config.get("model", {}).get("source") == "scratch":
        return given
    facts = model_facts(run)
    base, named = f"the base {facts['id']}", _named_licences(run, facts["licence"])
    if len(named) == 1:
        [licence] = named
    elif given and (given in named or not named):
        licence = given
    else:
        what = f"names several licences: {', '.join(sorted(named))}" if named else "names no licence that is known here"
        raise RequestError(f"{base} {what}", "its licence by name, as its page says it", "--license apache-2.0")
    if licence in PERMISSIVE:
        return given or licence
    if given not in ("", licence):
        raise RequestError(f"--license cannot be {request.licence}: {base} is under {licence}",
                           "the base's terms, which also hold for what is made of it", f"--license {licence}")
    if not request.accept_terms:
        terms = GEMMA_TERMS if licence == GEMMA else f"the terms `{licence}`"
        raise RequestError(f"{base} is under {terms}, not under a permissive licence", "your word that you have read "
                           "them, keep to the uses that they allow and pass them on", "--accept-terms")
    return licence


def _named_licences(run: RunRecord, recorded: object) -> set[str]:
    """Licences of the base: in the record, and in the model card next to the first weights, if both are still there."""
    from huggingface_hub import metadata_load

    # The record joins several names; without a name it has the reason.
    names = recorded.split(", ") if isinstance(recorded, str) else []
    with suppress(RequestError):
        card = starting_weights(run.path, tensors=False) / layout.README
        values = (metadata_load(card) or {}) if card.is_file() else {}
        in_card = values.get("license") or []
        if in_card == "other":  # a licence without a name on the Hub
            in_card = values.get("license_name") or []
        names += in_card if isinstance(in_card, list) else [in_card]
    return {_hub_name(str(name)) for name in names} - {"", "not named in the file"}


def _hub_name(licence: str) -> str:
    plain = licence.strip().lower()
    return _HUB_NAMES.get(plain, plain)


def _card(run: RunRecord, licence: str, library: str, root: str) -> str:
    """The model card: that of the record, with the metadata that the Hub reads."""
    metadata: dict[str, Any] = {"library_name": library}
    if licence in (*PERMISSIVE, GEMMA) or _ON_THE_HUB.fullmatch(licence):
        metadata["license"] = licence
    elif licence:
        metadata |= {"license": "other", "license_name": licence}
    if base := published_id(run):
        metadata["base_model"] = base
    evaluations = {name: {"summary": summary, "config": read_json(run.path / "eval" / name / layout.EVALUATION_CONFIG)}
                   for name, summary in run.evaluations().items()}
    text = model_card(RECORD, run.manifest, root, evaluations, metadata)
    return f"{text}\n## Terms\n\n{_GEMMA_USE}\n" if licence == GEMMA else text
