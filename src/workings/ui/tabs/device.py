"""What fills the device, a kernel that ran on it, and the environment."""

from workings.ui.draw import memory_bar
from workings.ui.tab import Tab

TAB = Tab(key="device", title="Device and memory", position=20, shown=lambda run: run.trained,
          values=lambda site, run, query: {"bar": memory_bar(run.detail.memory)})
