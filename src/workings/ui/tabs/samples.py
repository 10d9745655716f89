"""Completions that were kept as text beside an evaluation."""

from workings.ui.tab import Tab

TAB = Tab(key="samples", title="Samples", position=60, shown=lambda run: bool(run.detail.samples))
