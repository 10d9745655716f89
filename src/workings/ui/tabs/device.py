"""Memory of the device, load of the machine during training, a kernel that ran on it, and the environment."""

from collections.abc import Mapping
from typing import Any

from workings.ui.machine import MachineCurves, drawn, machine_use
from workings.ui.memory_bars import memory_bar
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab


def run_machine(site: Site, name: str) -> MachineCurves:
    """Load of the machine while a run trained: memory, processors and GPUs over the minutes."""
    return machine_use(site.folder, site.folder.path(name))


def _values(site: Site, run: OpenedRun, query: NoQuery) -> Mapping[str, Any]:
    figures = machine_use(site.folder, run.path).figures
    return {"bar": memory_bar(run.detail.memory),
            "machine": [(curve_figure.title, figure) for curve_figure in figures
                        if (figure := drawn(curve_figure)) is not None]}


TAB = Tab(key="device", title="Device and memory", position=20, shown=lambda run: run.trained, values=_values,
          answer=run_machine)
