"""`workings push`: a run's model with its card and its evidence on the Hugging Face Hub."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import answer, say, say_sizes


def push_command(
    model: Annotated[Path, typer.Argument(help="A sealed run, or a folder that `workings export` wrote.")],
    repo: Annotated[str, typer.Argument(help="OWNER/NAME on the Hub; created if missing.")],
    yes: Annotated[bool, typer.Option("--yes", help="Upload; without it the command only shows what it would "
                                      "upload.")] = False,
    run: Annotated[Path | None, typer.Option(help="The run that an exported folder was made from.",
                                             show_default="runs/ and the name in the folder")] = None,
    licence: Annotated[str, typer.Option(
        "--license", "--licence", help="The model's licence (apache-2.0, …), if its base names none.")] = "",
    accept_terms: Annotated[bool, typer.Option(
        "--accept-terms", help="Accept the base model's terms (such as Gemma's) and pass them on.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
) -> None:
    """Upload a run's model, its card and its evidence to the Hugging Face Hub; a dry run without --yes.

    The card has the measured accuracy with its interval. A base without a permissive licence needs --accept-terms.
    """
    from workings.publish.push import PushRequest, prepare, upload

    request = PushRequest(repo=repo, run=run, licence=licence, accept_terms=accept_terms, private=private)
    # Not in the system's temporary folder, which may be small or in memory.
    with tempfile.TemporaryDirectory(prefix=".push-", dir=model.absolute().parent) as folder:
        push = prepare(model, request, Path(folder))
        say(f"for {repo}{' (private)' if private else ''}, replacing files of the same names:")
        say_sizes(push.sizes, f"; licence: {push.licence or 'not named'}")
        if push.texts:
            say("texts in record.zip, readable by anyone who sees the repository:")
            say_sizes(dict(push.texts))
        else:
            say("record.zip holds no question, answer or completion; training data appear as digests only")
        say("README.md, the model card:")
        # Not by `say`, which would change commands in it.
        typer.echo(push.card, err=True)
        address = upload(push) if yes else ""
    answer({**push.to_json(), "uploaded": yes, "address": address}, (
        f"{address}\nto check after a download: workings verify record.zip --expect-root {push.root}" if yes else
        f"nothing uploaded; --yes uploads to https://huggingface.co/{repo}"))
