"""Entry points: other packages add engines and other parts to this one by a group and a name.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, distribution, entry_points

from workings.errors import RequestError

OURS = "workings"
"""Name of this package's distribution."""


def plugin_names(group: str) -> list[str]:
    """Sorted names of all entry points of a group; nothing is imported."""
    return sorted({point.name for point in entry_points(group=group)})


@cache
def our_names(group: str) -> frozenset[str]:
    """Names of this package's own entry points in a group; nothing is imported."""
    # Only of this distribution: reading those of all installed packages takes longer than verifying a small record.
    return frozenset(point.name for point in distribution(OURS).entry_points.select(group=group))


def find_plugin(group: str, name: str, *, given: str, task: str = "bring") -> EntryPoint | None:
    """The entry point of this name, or None; nothing is imported.

    Raises `RequestError` if several packages have one: "several packages bring engine: jax", ``task`` and ``given``.
    """
    # Deduplicated by target: a package that is on the path twice lists each entry point twice.
    points = {point.value: point for point in entry_points(group=group) if point.name == name}
    if len(points) > 1:
        raise RequestError(f"several packages {task} {given}", "one package; these do: "
                           + ", ".join(distribution_name(point) for point in points.values()), "uninstall all but one")
    return next(iter(points.values()), None)


def refuse_our_names(group: str, names: Collection[str], *, kind: str) -> None:
    """Raise `RequestError` if another package has an entry point with one of our ``names``.

    It would change what recipes mean. ``kind`` is what the names name, such as `objective`.
    """
    for point in entry_points(group=group):
        # Stale entry points of an earlier version of this package stay listed until it is reinstalled.
        if point.name in names and not point.value.startswith("workings."):
            package = distribution_name(point)
            raise RequestError(f"{kind} {point.name} of {package} has one of this package's names",
                               f"a name that no {kind} of this package has", f"pip uninstall {package}")


def distribution_name(point: EntryPoint) -> str:
    """The package that provides an entry point; if unknown, the entry point's target."""
    return point.dist.name if point.dist else point.value
