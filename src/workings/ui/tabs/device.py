"""Memory of the device, the device check, and the environment."""

from collections.abc import Mapping
from typing import Any

from workings.ui.memory_bars import memory_bar
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    return {"bar": memory_bar(run.detail.memory)}


TAB = Tab(key="device", title="Device", position=20, group="Training", shown=lambda run: run.trained, values=_values)
