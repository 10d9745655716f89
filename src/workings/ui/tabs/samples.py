"""Answers to the recipe's sample questions while the run was trained, from its log."""

from workings.ui.tab import Tab

TAB = Tab(key="samples", title="Samples", position=14, group="Training", shown=lambda run: bool(run.time_lines),
          values=lambda site, run, query: {"time_lines": run.time_lines})
