"""Tabs of a run's page, one file each (see `workings.ui.tab.Tab`). A new file here is a new tab."""

from importlib import import_module
from pkgutil import iter_modules

from workings.ui.tab import Tab, registered


def find_tabs() -> dict[str, Tab]:
    """The tab of every file here, by key, in the navigation's order. Raises `ValueError` as `registered` does."""
    return registered(import_module(f"{__name__}.{module.name}").TAB for module in iter_modules(__path__))


TABS = find_tabs()
