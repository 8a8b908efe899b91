"""Each class of core has a name of its own, so that a search finds one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).parents[2] / "tfopt_core"


def test_no_two_classes_of_core_have_the_same_name():
    places = defaultdict(list)
    for path in CORE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(CORE)))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
