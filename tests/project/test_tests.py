"""What tests share is in modules that are no tests, and of the package they use what others may use.

Private members of objects are ruff's rule (SLF001); imports and names of patches are looked for here.
"""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PATCHED = re.compile(r"workings\.[\w.]*\._\w+|_[A-Za-z]\w*")


def forbidden(source: str) -> set[str]:
    """What a test may not use: names in other test modules, and private names of the package, imported or patched."""
    names, patched = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            patched |= {text.value for text in node.args[:2] if isinstance(text, ast.Constant)
                        and isinstance(text.value, str) and PATCHED.fullmatch(text.value)}
    return patched | {name for name in names if (
        name.startswith("tests.") and ".test_" in name) or re.match(r"workings\b.*\._(?!_)", name)}


def test_no_test_uses_a_private_name_or_another_test() -> None:
    """A failure in one test would be a failure in the other; a private name may change without notice."""
    users = {str(path.relative_to(TESTS)): names for path in TESTS.rglob("*.py")
             if (names := sorted(forbidden(path.read_text(encoding="utf-8"))))}
    assert users == {}
