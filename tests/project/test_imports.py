"""No module of the package imports one that imports it, directly or through others; imports for types do not count."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_no_circle_of_imports() -> None:
    graph = grimp.build_graph("workings", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))
