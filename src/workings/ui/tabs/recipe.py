"""The recipe as written and resolved, and the manifest."""

from workings.ui.tab import Tab

TAB = Tab(key="recipe", title="Recipe", position=65, group="Record", shown=lambda run: run.trained)
