"""`workings pack`: everything that someone else needs to check runs, in one zip."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import answer, say, say_sizes


def pack_command(
    runs: Annotated[list[Path], typer.Argument(
        metavar="RUN...", help="Sealed runs; evaluations and samples next to them.")],
    out: Annotated[Path | None, typer.Option(help="Zip to write; it must not exist.",
                                             show_default="the first run's name, here")] = None,
    weights: Annotated[str, typer.Option(
        help="inside: the zip holds the checkpoints' tensors; digest: only their digests.")] = "inside",
) -> None:
    """Pack runs for publication: records, report, recipes, licences.

    Shows what it publishes, refuses runs that do not verify, and verifies the written zip. Equal runs give equal
    bytes. Next to the zip it writes a page that verifies it in a browser.
    """
    from workings.publish.pack import Packed, pack
    from workings.record.progress import slow_operation

    def show(planned: Packed) -> None:  # called before anything is written
        say(f"this will be published in {planned.out}:")
        say_sizes(dict(planned.entries))
        if planned.by_digest:
            say("and this by digest, not in the zip:")
            say_sizes(dict(planned.by_digest))

    out = out or Path(f"{runs[0].resolve().name}.zip")  # resolved, because `.` has no name
    with slow_operation(f"packing {out}"):
        done = pack(runs, out, weights=weights, show=show)
    values = {"out": str(out), "page": str(done.page), "root": done.root,
              "files": len(done.entries), "bytes": done.zip_bytes, "by_digest": len(done.by_digest)}
    answer(values, (
        f"{out}: {done.zip_bytes:,} bytes, verified; root {done.root}\n"
        f"keep the root elsewhere; to check: workings verify {shlex.quote(str(out))} --expect-root {done.root}\n"
        f"or in a browser, offline: {done.page}"))
