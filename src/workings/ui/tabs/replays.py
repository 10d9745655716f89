"""Steps that were taken again, against what was recorded."""

from workings.ui.replays import drawn
from workings.ui.tab import Tab

TAB = Tab(key="replays", title="Replays", position=80, shown=lambda run: bool(run.detail.replays),
          values=lambda site, run, query: {"figures": {replay.name: drawn(replay) for replay in run.detail.replays}})
