"""Imported before all else by what runs tests: imports of libraries take three quarters of their time after this."""

import gc
import sys

gc.disable()  # until `collect_seldom`: what is imported stays
sys.modules.setdefault("sklearn", None)  # type: ignore[arg-type]  # transformers imports it for a sampler not used here


def collect_seldom() -> None:
    """Look for unreachable cycles seldom from here on, and never among what exists now.

    Traces of programs make objects by the hundred thousand, and nearly all of these die by their count of references.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
