"""Completions that were kept as text: next to an evaluation, and in the log while the run was trained.

A unit of samples shows all of its own in `sampled`.
"""

from collections.abc import Mapping
from typing import Any

from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    return {"time_lines": run.time_lines}


TAB = Tab(key="samples", title="Samples", position=60, values=_values,
          shown=lambda run: run.row.kind != "samples" and bool(run.detail.samples or run.time_lines))
