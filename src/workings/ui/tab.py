"""Tabs of a run's page, and the run that they show."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from workings.record.layout import CHECKPOINTS, PARTIAL_SUFFIX
from workings.ui.answers import units_of
from workings.ui.detail import Detail, read_detail
from workings.ui.listing import RunRow
from workings.ui.site import Site


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """A run that a page is about, read from its files."""

    name: str
    path: Path
    row: RunRow
    """The run's row in the list."""
    detail: Detail
    """Contents of the run's files."""
    evaluated: bool
    """Whether the run has an evaluation, or is one."""
    sealed: bool
    """Whether the run is finished and readable."""

    @classmethod
    def open(cls, site: Site, name: str) -> "OpenedRun":
        """Opens a run below the page's folder. Raises `RequestError` if there is no run of that name."""
        path = site.folder.path(name)
        # The row is cached by file times; the detail is read again for each page.
        row, detail = site.row(path), read_detail(site.folder, path)
        return cls(name=name, path=path, row=row, detail=detail, evaluated=bool(units_of(path)),
                   sealed=not path.name.endswith(PARTIAL_SUFFIX) and row.state != "unreadable")

    @property
    def trained(self) -> bool:
        """Whether it is a run, running or not, and not a separate unit."""
        return self.row.kind == "run"

    @property
    def can_be_evaluated(self) -> bool:
        """Whether `workings eval` can ask its last checkpoint."""
        return self.sealed and self.row.kind == "run"

    @property
    def has_weights(self) -> bool:
        """Whether its last checkpoint is here: a pack may hold only the tensors' digests."""
        return self.can_be_evaluated and any(self.path.glob(f"{CHECKPOINTS}/*/*.safetensors"))


class NoQuery(BaseModel):
    """The parameters of a tab that takes none."""


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A tab of a run's page: one question about a run.

    It is one file, `workings/ui/tabs/KEY.py` with the tab as ``TAB``, and a template, `tab_KEY.html.jinja`, which sees
    ``row``, ``detail``, ``sealed`` and what ``values`` returns. The page's address, its navigation and the JSON twin
    follow from it.
    """

    key: str
    """Name of the tab in addresses."""
    title: str
    """Name of the tab in the navigation."""
    position: int
    """Position in the navigation, from left to right; unique among the tabs."""
    group: Literal["Run", "Training", "Answers", "Record"] = "Training"
    """Heading in the navigation above this tab and its neighbors."""
    shown: Callable[[OpenedRun], bool] = lambda run: True
    """Whether a run has this tab. At least one tab is shown for every run."""
    query: type[BaseModel] = NoQuery
    """The parameters that it takes from the page's address, each with a default."""
    values: Callable[[Site, OpenedRun, Any], Mapping[str, Any]] = lambda site, run, query: {}
    """Values for its template besides the run; the third argument has the fields of ``query``."""
    answer: Callable[..., BaseModel] | None = None
    """JSON twin at ``/api/KEY/RUN``: called with the `Site`, the run's ``name`` and further parameters of the
    address. Its annotations are the schema, its docstring the description. None: ``/api/run/RUN`` has it."""


def registered(tabs: Iterable[Tab]) -> dict[str, Tab]:
    """Tabs by key, in the order of their positions.

    Raises:
        ValueError: two tabs with one key or one position, or a parameter that two tabs take.
    """
    by_key: dict[str, Tab] = {}
    parameters: dict[str, str] = {"tab": "the page itself"}
    # Sorted, so that two equal positions are neighbors.
    for tab in sorted(tabs, key=lambda tab: tab.position):
        if tab.key in by_key:
            raise ValueError(f"two tabs have the key {tab.key!r}")
        if other := next((key for key, other_tab in by_key.items() if other_tab.position == tab.position), None):
            raise ValueError(f"tabs {other!r} and {tab.key!r} have the position {tab.position}")
        # All tabs share one address, so a parameter has one meaning.
        for name in tab.query.model_fields:
            if name in parameters:
                raise ValueError(f"tab {tab.key!r} takes the parameter {name!r}, as {parameters[name]} does")
            parameters[name] = f"tab {tab.key!r}"
        by_key[tab.key] = tab
    return by_key
