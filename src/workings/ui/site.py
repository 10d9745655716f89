"""What all routes share: the folder of runs, the jobs, the cached verdicts, and the templates."""

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import jinja2
from fastapi.responses import HTMLResponse, Response

from workings.hardware.machine import cache_directory
from workings.record.digest import bytes_digest
from workings.ui.folder import Folder
from workings.ui.jobs import Jobs
from workings.ui.listing import RunRow, run_row, run_rows
from workings.ui.memory_bars import part_number
from workings.ui.number_format import FILTERS
from workings.ui.verification_cache import VerificationCache


def _environment() -> jinja2.Environment:
    # Everything is escaped, because a run's text must not become markup. An unknown name raises an error.
    environment = jinja2.Environment(loader=jinja2.PackageLoader("workings.ui"), autoescape=True,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(FILTERS | {"colour": part_number})
    return environment


def page_directory(root: Path) -> Path:
    """Directory for the files of the page over this folder, in the user's cache."""
    return cache_directory() / "ui" / bytes_digest(str(root.resolve()).encode())[:16]


@dataclass(frozen=True)
class Site:
    """The page over one folder."""

    folder: Folder
    jobs: Jobs
    verified: VerificationCache
    templates: jinja2.Environment = field(default_factory=_environment)

    @classmethod
    def over(cls, root: Path) -> "Site":
        """The page over this folder."""
        return cls(folder=Folder(root.resolve()), jobs=Jobs(page_directory(root) / "jobs", root.resolve()),
                   verified=VerificationCache.here())

    def rows(self) -> list[RunRow]:
        """All runs of the folder."""
        return run_rows(self.folder, self.verified.all(self.folder))

    def row(self, run: Path, *, verdict: bool = True) -> RunRow:
        """The row of one run; without its cached ``verdict``, which takes long to look up, for live updates."""
        name = self.folder.name(run)
        kept = self.verified.get(run) if verdict else None
        return run_row(self.folder, run, {name: kept} if kept else {}, self.folder.phases())

    def typed(self, *names: str) -> str:
        """Paths below the folder as words of a command, for the folder where the page was started."""
        here, root = Path.cwd(), self.folder.root
        start = root.relative_to(here) if root.is_relative_to(here) else root
        return " ".join(quote(str(start / name)) for name in names)

    def html(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A rendered page."""
        text = self.templates.get_template(template).render(
            root=self.folder.root.name or "/", typed=self.typed, **values)
        return HTMLResponse(text, status_code=status)


def html_file(text: str, name: str) -> Response:
    """A page that a browser saves as a file of this name."""
    # In a header, quotes and line breaks would have a meaning.
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)[:100] or "run"
    return Response(text, media_type="text/html", headers={
        "content-disposition": f'attachment; filename="{safe}.html"'})
