"""Completions that were kept as text beside an evaluation. A unit of samples shows all of them in `sampled`."""

from workings.ui.tab import Tab

TAB = Tab(key="samples", title="Samples", position=60,
          shown=lambda run: bool(run.detail.samples) and run.row.kind != "samples")
