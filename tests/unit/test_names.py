"""What makes a place in core easy to find: one class of a name, and no circle of imports."""

import ast
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

CORE = Path(__file__).parents[2] / "tfopt_core"
MODULES = {
    ".".join(path.relative_to(CORE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in CORE.rglob("*.py")
}


@cache
def tree(path):
    """What a module holds."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_by(path):
    """The modules of core that a module imports, within functions and for types too."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                found.add(full if full in MODULES else node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found & set(MODULES)


def test_no_two_classes_of_core_have_the_same_name():
    places = defaultdict(list)
    for path in MODULES.values():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(CORE)))
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_modules_of_core_import_each_other_in_a_circle():
    # the package offers its names lazily, and they come from all over
    imports = {name: imported_by(path) - {"tfopt_core"} for name, path in MODULES.items()}
    order = list(TopologicalSorter(imports).static_order())  # raises CycleError
    assert len(order) > 200
