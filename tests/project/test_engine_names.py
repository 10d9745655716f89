"""Above `engines/` no module decides by an engine's name: engines are asked through the registry.

That none imports an engine is a contract of the import linter.
"""

import ast
from importlib.metadata import entry_points
from pathlib import Path

import workings

SOURCE = Path(workings.__file__).parent
ENGINES = {"jax", "torch", "tunix"}


def test_no_engine_is_compared_with_a_name() -> None:
    points = entry_points(group="workings.engines")
    assert {point.name for point in points if point.value.startswith("workings.engines.")} == ENGINES
    found = {f"{path.relative_to(SOURCE)}:{node.lineno}" for path in SOURCE.rglob("*.py")
             if path.relative_to(SOURCE).parts[0] != "engines"
             for node in ast.walk(ast.parse(path.read_text("utf-8")))
             if isinstance(node, ast.Compare) and "engine" in ast.unparse(node).lower()
             and any(isinstance(part, ast.Constant) and part.value in ENGINES for part in ast.walk(node))}
    assert found == set()
