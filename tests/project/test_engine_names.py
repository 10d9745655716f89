"""Above `engines/` no module imports an engine or decides by its name: engines are asked through the registry."""

import ast
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import workings

SOURCE = Path(workings.__file__).parent
ENGINES = {"jax", "torch", "tunix"}
NAMED = {
    "config/recipe.py": "DEFAULT_ENGINE, the one place that prefers an engine",
    "config/training.py": "which engines have an optimizer, declared next to its settings",
    "doctor/nvidia.py": "a library whose wheel is examined, and the file that examines it",
    "doctor/setup_cuda.py": "key of an answer: a library's version",
    "doctor/versions.py": "distributions whose versions must go together",
    "kaggle/notebook.py": "a library that an image may have too old",
    "models/families/gemma4.py": "engines that have no experts, declared next to them",
    "models/families/qwen3_5.py": "engines that have no layers with a state, declared next to them",
    "models/unverified.py": "engines that have no class for a model without a family",
    "record/environment.py": "distributions whose versions a record holds",
    "runs/parity.py": "ENGINES, the two that are compared",
    "runs/quickstarts/real.py": "a library that the real model needs",
}
"""Files with a string that is an engine's name, and what it represents there; none compares a recipe's engine."""


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "engines"]


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ENGINES


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in modules()}


@pytest.mark.slow
def test_no_module_imports_an_engine(trees: dict[str, ast.Module]) -> None:
    found = {f"{name}: {module}" for name, tree in trees.items() for node in ast.walk(tree) for module in imported(node)
             if module.startswith("workings.engines.") and module.split(".")[2] in ENGINES}
    assert found == set()


@pytest.mark.slow
def test_the_name_of_an_engine_stands_only_where_it_is_declared(trees: dict[str, ast.Module]) -> None:
    assert {name for name, tree in trees.items() if any(map(is_name, ast.walk(tree)))} == NAMED.keys()


def test_no_engine_is_compared_with_a_name(trees: dict[str, ast.Module]) -> None:
    found = {f"{name}:{node.lineno}" for name, tree in trees.items() for node in ast.walk(tree)
             if isinstance(node, ast.Compare) and "engine" in ast.unparse(node).lower()
             and any(map(is_name, ast.walk(node)))}
    assert found == set()


def test_the_names_are_those_of_our_engines() -> None:
    points = entry_points(group="workings.engines")
    assert {point.name for point in points if point.value.startswith("workings.engines.")} == ENGINES
