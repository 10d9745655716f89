"""What changed between two files of traces, by id."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workings.data.traces import Trace


@dataclass(frozen=True, kw_only=True)
class TraceDiff:
    """Differences of B seen from A. Order of the records does not count: it does not decide the order of training."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]
    """The keys that differ, by id."""
    same: int

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"equal": self.equal, "same": self.same, "added": list(self.added), "removed": list(self.removed),
                "changed": {name: list(keys) for name, keys in self.changed.items()}}


def diff_traces(a: Iterable[Trace], b: Iterable[Trace]) -> TraceDiff:
    """Compare two sets of traces; ids are unique in each."""
    before = {trace.id: trace.to_json() for trace in a}
    after = {trace.id: trace.to_json() for trace in b}
    changed = {}
    for name in before.keys() & after.keys():
        keys = sorted(before[name].keys() | after[name].keys())
        if differing := tuple(key for key in keys if before[name].get(key) != after[name].get(key)):
            changed[name] = differing
    return TraceDiff(added=tuple(sorted(after.keys() - before.keys())),
                     removed=tuple(sorted(before.keys() - after.keys())),
                     changed=dict(sorted(changed.items())),
                     same=len(before.keys() & after.keys()) - len(changed))
