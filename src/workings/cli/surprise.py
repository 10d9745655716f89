"""`workings data surprise`: which tokens of a trace a trained model finds surprising."""

from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer


def surprise_command(
    run: Annotated[Path, typer.Argument(help="A sealed run directory.")],
    row: Annotated[str, typer.Option("--row", help="Id of the trace; a pair's are ID/chosen and ID/rejected.",
                                     show_default="the first one")] = "",
    traces: Annotated[Path | None, typer.Option("--traces", help="A file of traces other than the run's own.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the row as a page, every token shaded by its "
                                              "loss.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Which tokens of a trace does a trained model find surprising?

    Asks the last checkpoint how likely it finds every learned token, given what stands before it: the loss, token by
    token.
    """
    from workings.runs.token_losses import token_losses

    losses = token_losses(run, row, traces=traces)
    if html is not None:
        import shlex

        from workings.reports.surprise_page import write_surprise_page

        words = ["workings", "data", "surprise", str(run), "--row", losses.row]
        words += ["--traces", str(traces)] if traces is not None else []
        write_surprise_page(html, losses.page(shlex.join(words)))
    answer(losses.to_json(), as_json=as_json, text=losses.text() + (f"\npage: {html}" if html else ""))
