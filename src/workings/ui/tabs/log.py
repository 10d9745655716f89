"""Events of a run and the end of its log."""

from workings.ui.tab import Tab

TAB = Tab(key="log", title="Log", position=90, group="Record", shown=lambda run: run.trained)
