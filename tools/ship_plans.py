"""Compiles the plans that ship with the package: ``python -m tools.ship_plans [--check] [--minutes N] [RECIPE ...]``.

Every shipped recipe that is called after a machine (``-v5e8``, ``-t4x2``, …) is planned for that machine once, and what
the compiler or the trace said goes into `src/workings/planning/shipped_plans.json`. Answers that are still current are
not made again. The file is written after each recipe, and after ``--minutes`` no further one is begun: the next call
goes on. A recipe takes from ten seconds to ten minutes.

An answer is current while the engine's source, the versions of its libraries and the recipe are what they were. Nothing
fails where one is not: `workings plan` compiles then. So the file is made before a release, and no test demands it.
``--check`` compiles nothing, names the recipes without a current answer and exits with 1 if there are any.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.generated import ROOT
from workings.config.load import shipped_recipes
from workings.hardware.catalog import target_in_name
from workings.planning.inspection_cache import SHIPPED_FILE, cache_directory, shipped_plans
from workings.record.progress import ProgressListener, report_progress_to
from workings.runs.plan import plan

PLACE = ROOT / "src" / "workings" / "planning" / SHIPPED_FILE


class NotCurrent(Exception):
    """A plan needs an answer that the file does not hold."""


class Refuses(ProgressListener):
    """Hears that something would be compiled, and ends it before it begins."""

    def begins(self, what: str) -> None:
        """End the plan."""
        raise NotCurrent(what)


def machines() -> dict[str, str]:
    """Recipe -> machine, of those that plans are shipped of."""
    named = {recipe: target_in_name(recipe) for recipe in shipped_recipes()}
    # What is compiled for this CPU is not for another one.
    return {recipe: machine for recipe, machine in named.items() if machine not in ("", "cpu")}


def is_current(recipe: str, machine: str) -> bool:
    """Whether the file alone answers this plan."""
    with empty_cache(), report_progress_to(Refuses()):
        try:
            plan(recipe, machine, nearest=False)
        except NotCurrent:
            return False
    return True


def make(recipe: str, machine: str) -> None:
    """Compile one plan, and put its answers in the place of those that the file held of it."""
    held, title = shipped_plans(), f"{recipe} on {machine}"
    for digest in [digest for digest, entry in held.items() if entry["plan"] == title]:
        del held[digest]
    with empty_cache():
        made = plan(recipe, machine, nearest=False)
        for path in sorted(cache_directory().glob("*.json")):
            held[path.stem] = {"plan": title, "answer": json.loads(path.read_text(encoding="utf-8"))}
    print(title, made.verdict.reasons[0], flush=True)


def write() -> None:
    """The file: one answer a line, sorted by plan, without those of recipes that are gone."""
    titles = {f"{recipe} on {machine}" for recipe, machine in machines().items()}
    held = sorted((entry["plan"], digest, entry) for digest, entry in shipped_plans().items()
                  if entry["plan"] in titles)
    lines = [f"{json.dumps(digest)}: {json.dumps(entry, sort_keys=True)}" for _, digest, entry in held]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@contextmanager
def empty_cache() -> Iterator[None]:
    """Meanwhile answers are looked for, and new ones kept, in a folder that is empty and goes away again."""
    before = os.environ.get("WORKINGS_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKINGS_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["WORKINGS_CACHE"]
            if before is not None:
                os.environ["WORKINGS_CACHE"] = before


def main(arguments: list[str]) -> int:
    """Make what is not current, or only say it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    asked = parser.parse_args(arguments)
    began, known = time.monotonic(), machines()
    if unknown := set(asked.recipes) - set(known):
        parser.error(f"no plan is shipped of {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    wanted = {recipe: known[recipe] for recipe in asked.recipes or known}
    missing = [recipe for recipe in wanted if not is_current(recipe, wanted[recipe])]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} recipes have a current plan in {PLACE.relative_to(ROOT)}")
    if asked.check:
        print("".join(f"compiled when asked: {recipe} on {wanted[recipe]}\n" for recipe in missing), end="")
        return int(bool(missing))
    for recipe in missing:
        if time.monotonic() - began > 60 * asked.minutes:
            print(f"the time is up; not made: {recipe}")
            continue
        make(recipe, wanted[recipe])
        write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
