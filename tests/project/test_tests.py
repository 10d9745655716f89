"""What tests share is in modules that are no tests, and of the package they use what others may use.

Private members of objects are ruff's rule (SLF001); imports and names of patches are looked for here.
"""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PATCHED = re.compile(r"workings\.[\w.]*\._\w+|_[A-Za-z]\w*")


def imported_names(source: str) -> set[str]:
    """Names that a source imports anywhere in it, ``from a import b`` as both `a` and `a.b`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def patched_names(source: str) -> set[str]:
    """Private names that a source gives to ``monkeypatch.setattr`` as text."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr")
    return {text.value for call in calls for text in call.args[:2]
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and PATCHED.fullmatch(text.value)}


def forbidden(source: str) -> set[str]:
    """What a test may not use: names in other test modules, and private names of the package."""
    parts = {name: name.split(".") for name in imported_names(source)}
    return patched_names(source) | {name for name, (top, *rest) in parts.items() if (
        top == "tests" and any(part.startswith("test_") for part in rest)) or (
        top == "workings" and any(part.startswith("_") and not part.startswith("__") for part in rest))}


def test_no_test_uses_a_private_name_or_another_test() -> None:
    """A failure in one test would be a failure in the other; a private name may change without notice."""
    users = {str(path.relative_to(TESTS)): names for path in TESTS.rglob("*.py")
             if (names := sorted(forbidden(path.read_text(encoding="utf-8"))))}
    assert users == {}
