"""A small FrozenLake: walk over ice from the start to the goal without falling into a hole."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from workings.data.generators.base import rank
from workings.environments.base import Row, Step

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Place = tuple[int, int]


class FrozenLake:
    """A square of ice with holes; the model writes `up`, `down`, `left` or `right`.

    As in Gymnasium's environment of this name, but the ice is not slippery and moves towards the goal earn a little.
    """

    def __init__(self, *, size: int = 3, holes: int = 2) -> None:
        """Size of a side, and number of holes. Raises ``ValueError`` where they leave no room."""
        if not 2 <= size <= 9 or not 0 <= holes <= size * size - 2 * size + 1:
            raise ValueError(f"a size from 2 to 9 with holes that leave a way, not {size} and {holes}")
        self._size, self._holes = size, holes
        self._lake: list[str] = []
        self._place: Place = (0, 0)
        self._distances: dict[Place, int] = {}

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Lakes with a way to the goal, determined by the seed; lakes may repeat."""
        for number in range(count):
            yield {"id": f"lake-{number:06d}", "lake": "\n".join(self._draw(seed, number)), "expected_answer": "goal"}

    def reset(self, seed: int, row: Row) -> str:
        """The lake with the place of the model; nothing is random."""
        del seed
        self._lake, self._place = str(row["lake"]).split("\n"), (0, 0)
        self._distances = distances(self._lake)
        # A line a word: in a tokenizer that is trained on the tasks each is one token.
        return "\n".join(["Walk from P to G, not into H, with", *MOVES, self._shown()])

    def step(self, text: str) -> Step:
        """1 at the goal; 0.1 for a step towards it and -0.1 for one away; no direction, or a hole, ends the episode.

        The text's first word counts.
        """
        move = MOVES.get("".join(text.split()[:1]))
        if move is None:
            return Step("", 0.0, done=True)
        row, column = self._place[0] + move[0], self._place[1] + move[1]
        # At a wall the model does not move.
        target = (row, column) if (row, column) in self._cells() else self._place
        if self._lake[target[0]][target[1]] == "H":
            return Step("", 0.0, done=True)
        nearer = self._distances[self._place] - self._distances[target]
        self._place = target
        if not self._distances[target]:
            return Step("", 1.0, done=True)
        return Step(self._shown(), 0.1 * nearer)

    def _cells(self) -> set[Place]:
        return {(row, column) for row in range(len(self._lake)) for column in range(len(self._lake[row]))}

    def _shown(self) -> str:
        rows = [list(row) for row in self._lake]
        rows[self._place[0]][self._place[1]] = "P"
        return "\n".join("".join(row) for row in rows)

    def _draw(self, seed: int, number: int) -> list[str]:
        cells = [(row, column) for row in range(self._size) for column in range(self._size)][1:-1]
        for again in range(1000):
            order = sorted(cells, key=lambda cell: rank("lake", seed, number, again, cell))
            holes = {*order[:self._holes]}
            lake = ["".join("H" if (row, column) in holes else "." for column in range(self._size))
                    for row in range(self._size)]
            lake[-1] = lake[-1][:-1] + "G"
            if (0, 0) in distances(lake):
                return lake
        raise ValueError(f"no way through {self._holes} holes in a lake of size {self._size}: fewer holes")


def distances(lake: list[str]) -> dict[Place, int]:
    """Moves to the goal from every place from which it can be reached."""
    goal = (len(lake) - 1, len(lake[-1]) - 1)
    found, waiting = {goal: 0}, deque([goal])
    while waiting:
        row, column = waiting.popleft()
        for down, right in MOVES.values():
            cell = (row + down, column + right)
            inside = 0 <= cell[0] < len(lake) and 0 <= cell[1] < len(lake[0])
            if inside and cell not in found and lake[cell[0]][cell[1]] != "H":
                found[cell] = found[row, column] + 1
                waiting.append(cell)
    return found
