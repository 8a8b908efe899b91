"""The list of private members is that of the code: nothing is touched that it does not name."""

import ast
from pathlib import Path

import attrs
import pytest

from tfopt_core import private_api
from tfopt_core.commands.doctor import private_api_findings
from tfopt_core.private_api import FEATURES, Feature, is_there

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tfopt_core" / "private_api"
PRIVATE = ("keras.src", "tensorflow.python", "tensorflow.tsl")
# Attributes with an underscore that are nobody else's: of tfopt's own objects, by file, and of
# Python's library.
OWN = {
    ("database.py", "_connection"), ("source.py", "_fields"),
    ("python_source.py", "_fields"),
    ("pipeline.py", "_fields"), ("values.py", "_validators"),
    ("service_local.py", "_watch"), ("training.py", "_with_shape"), ("tree.py", "_child"),
    ("training.py", "_without_optionals"),
    ("fork.py", "_servers"),
}  # fmt: skip
OF_PYTHON = {
    "_exit", "_exit_function", "_clear", "_getframe", "_run_exitfuncs", "_shutdown", "_value_",
}  # fmt: skip
MEMBERS = {member for feature in FEATURES.values() for member in feature.each()}
MODULES = {owner.partition(":")[0] for owner, _ in MEMBERS}


@attrs.define
class Touched(ast.NodeVisitor):
    """What a file touches of TensorFlow's and Keras' private parts.

    :param members: (module, name) of what it imports, and uses of modules that it imports.
    :param attributes: attributes with an underscore of objects that are not its own.
    :param words: every name, attribute and text in it.
    """

    file: str
    members: set[tuple[str, str]] = attrs.field(factory=set)
    modules: set[str] = attrs.field(factory=set)
    attributes: set[str] = attrs.field(factory=set)
    words: set[str] = attrs.field(factory=set)
    _aliases: dict[str, str] = attrs.field(factory=dict)

    def visit_ImportFrom(self, node):
        if node.module is None or not node.module.startswith(PRIVATE):
            return
        for alias in node.names:
            module = f"{node.module}.{alias.name}"
            self.words.add(alias.name)
            if module in MODULES:
                self._aliases[alias.asname or alias.name] = module
            else:
                self.members.add((node.module, alias.name))

    def visit_Import(self, node):
        self.modules |= {alias.name for alias in node.names if alias.name.startswith(PRIVATE)}

    def visit_Attribute(self, node):
        self.words.add(node.attr)
        base = node.value.id if isinstance(node.value, ast.Name) else ""
        if base in self._aliases:
            self.members.add((self._aliases[base], node.attr))
        elif base not in ("self", "cls"):
            self._note(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("getattr", "hasattr", "setattr", "delattr"):
            place = node.args[1]
            if isinstance(place, ast.Constant):
                self._note(str(place.value))
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.words.add(node.value)
            if node.value.startswith(PRIVATE):
                self.modules.add(node.value)

    def _note(self, attribute):
        private = attribute.startswith("_") and not attribute.startswith("__")
        if private and attribute not in OF_PYTHON and (self.file, attribute) not in OWN:
            self.attributes.add(attribute)


def touched_by(path):
    found = Touched(path.name)
    found.visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


@pytest.fixture(scope="module")
def scanned():
    """Every file of the core, the plugins and the workloads, but for the list itself."""
    return {
        path: touched_by(path)
        for folder in ("tfopt_core", "plugins", "workloads")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if LIST not in path.parents
    }


def test_every_member_of_a_private_module_that_is_touched_is_listed(scanned):
    classes = {(owner.partition(":")[0], owner.partition(":")[2]) for owner, _ in MEMBERS}
    unlisted = {
        (path.name, *member)
        for path, touched in scanned.items()
        for member in touched.members - MEMBERS - classes
    }
    assert unlisted == set()


def test_every_private_module_that_is_named_is_listed(scanned):
    unlisted = {
        (path.name, module)
        for path, touched in scanned.items()
        for module in touched.modules
        # a text may be the beginning that a listed module is compared with
        if not any(listed == module or (module.endswith(".") and listed.startswith(module))
                   for listed in MODULES)
    }  # fmt: skip
    assert unlisted == set()


def test_every_private_attribute_that_is_touched_is_listed(scanned):
    # (a private module may be an attribute of the module that imports it)
    listed = {name for _, name in MEMBERS} | {owner.rpartition(":")[2] for owner, _ in MEMBERS}
    unlisted = {
        (path.name, attribute)
        for path, touched in scanned.items()
        for attribute in touched.attributes - listed
    }
    assert unlisted == set()


def test_every_listed_member_is_touched(scanned):
    words = {word for touched in scanned.values() for word in touched.words}
    of_class = {(owner, name or owner.rpartition(":")[2]) for owner, name in MEMBERS}
    assert {member for member in of_class if member[1] not in words} == set()


def test_every_feature_is_asked_for(scanned):
    words = {word for touched in scanned.values() for word in touched.words}
    assert set(FEATURES) - words == set()


# Finding out what is there, on modules of Python


@pytest.mark.parametrize(
    ("owner", "name", "there"),
    [
        ("json", "dumps", True),
        ("json", "dump_all", False),
        ("json", "", True),
        ("json.nothing", "", False),
        ("json.decoder:JSONDecoder", "raw_decode", True),
        ("json.decoder:JSONDecoder", "strict", True),  # which its __init__ sets
        ("json.decoder:JSONDecoder", "stricter", False),
        ("json.decoder:JSONReader", "", False),
        ("json.decoder:scanner", "make_scanner", True),  # of a module within
    ],
)
def test_a_member_is_there_if_it_is_defined_or_set_by_a_method(owner, name, there):
    assert is_there(owner, name) is there


def test_a_missing_member_is_named_with_what_is_lost_and_the_version(monkeypatch):
    feature = Feature("nothing is fast", {"keras.src.nowhere": "a b", "json": "dumps"})
    monkeypatch.setattr(private_api, "FEATURES", {"x": feature, "y": feature})
    monkeypatch.setattr(private_api, "_asked", {})
    said = private_api.why_without("x")
    assert said.startswith("nothing is fast: Keras 3.")
    assert said.endswith('has no "keras.src.nowhere:a" (and 1 more)')
    assert private_api.disabled_so_far() == (said,)  # of those that were asked for


def test_doctor_names_each_disabled_feature_and_needs_no_attention_for_it():
    findings = list(private_api_findings(["this is lost: TensorFlow 9 has no that"]))
    [finding] = findings
    assert (finding.subject, finding.ok) == ("private API", None)
    assert "has no that" in finding.detail
    assert "versions of TensorFlow" in finding.mend
    [fine] = private_api_findings([])
    assert fine.ok is True
    assert f"all {len(MEMBERS)} members" in fine.detail
