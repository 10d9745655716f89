"""What other packages bring to a registry of this one: entry points of their distributions, by group and name."""

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, distribution, entry_points

from workings.errors import RequestError

OURS = "workings"
"""Name of this package's distribution."""


def plugin_names(group: str) -> list[str]:
    """Names of all entry points of a group, in order; nothing is imported."""
    return sorted({point.name for point in entry_points(group=group)})


@cache
def our_names(group: str) -> frozenset[str]:
    """Names of the entry points of a group that this package itself brings; nothing is imported."""
    # Of one distribution: to read those of all that are installed takes longer than to verify a small record.
    return frozenset(point.name for point in distribution(OURS).entry_points.select(group=group))


def find_plugin(group: str, name: str, *, given: str, task: str = "bring") -> EntryPoint | None:
    """The entry point of this name, or None; nothing is imported.

    Args:
        group: of entry points.
        name: of the entry point.
        given: how an error names it, such as ``engine: jax``.
        task: what the package does for it, in the error's words.

    Raises:
        RequestError: two packages have an entry point of this name.
    """
    # By what they point to: a package that is twice on the path lists each of its entry points twice.
    points = {point.value: point for point in entry_points(group=group) if point.name == name}
    if len(points) > 1:
        raise RequestError(given, f"one package to {task} it; these do: "
                           + ", ".join(distribution_name(point) for point in points.values()), "uninstall all but one")
    return next(iter(points.values()), None)


def refuse_our_names(group: str, names: Collection[str], *, kind: str) -> None:
    """Another package under one of our names could change what a recipe means without a change in the recipe.

    Args:
        group: of entry points.
        names: those that files of this package have.
        kind: what they name, such as ``objective``.

    Raises:
        RequestError: another package has an entry point of one of these names.
    """
    for point in entry_points(group=group):
        # Some of ours were entry points once; an environment lists them until the package is installed again.
        if point.name in names and not point.value.startswith("workings."):
            package = distribution_name(point)
            raise RequestError(f"{kind} {point.name} of {package}", f"a name that no {kind} of this package has",
                               f"pip uninstall {package}")


def distribution_name(point: EntryPoint) -> str:
    """The package that brings it; where none is known, what it points to."""
    return point.dist.name if point.dist else point.value
