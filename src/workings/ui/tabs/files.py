"""Files of a run with their sizes, and its root digest."""

from workings.ui.tab import Tab

TAB = Tab(key="files", title="Files", position=100)
