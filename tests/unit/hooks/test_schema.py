"""The JSON Schema takes what reading a recipe takes, and refuses mistakes at their place."""

import json
import math
import tomllib
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs import field, validators
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from support.tools import load_file

from tfopt_core.hooks.installed.inspection import PluginInfo, describe_plugin, inspect_plugins
from tfopt_core.hooks.installed.schema import installed_schema
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.values import faults_of, of_annotation

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "third_party_plugin"
RECIPES = [*sorted((ROOT / "recipes").glob("*.toml")), EXAMPLE / "recipe.toml"]


@attrs.frozen(kw_only=True, eq=False)
class Odd(Plugin):
    """A plugin with every kind of setting."""

    needed: str
    size: int = field(default=8, validator=[validators.ge(1), validators.lt(100)])
    share: float | None = field(
        default=None, validator=validators.optional([validators.gt(0), validators.lt(math.inf)])
    )
    calls: int | Literal["auto"] = field(default="auto", metadata={"help": "How many at once."})
    names: tuple[str, ...] = field(default=("a",), validator=validators.min_len(1))
    device: str = field(default="/gpu:0", validator=validators.matches_re(r"auto|/.*"))
    own: complex = 1j

    @hookimpl
    def on_epoch_end(self): ...


@pytest.fixture(scope="module")
def schema():
    # the plugin of the example is not installed here
    example = load_file(EXAMPLE / "tfopt_fewer_updates" / "plugin.py").FewerUpdates
    others = {"fewer-updates": example, "odd one/two": Odd}
    return installed_schema([*inspect_plugins(), *starmap(describe_plugin, others.items())])


@pytest.fixture(scope="module")
def validator(schema):
    Draft7Validator.check_schema(schema)
    return Draft7Validator(json.loads(json.dumps(schema, allow_nan=False)))


def refusals(validator, text):
    """Where a recipe is refused: the paths of the keys."""
    found = validator.iter_errors(tomllib.loads(text))
    return ["/".join(str(part) for part in error.absolute_path) for error in found]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_of_this_repository_are_taken(validator, path):
    assert refusals(validator, path.read_text(encoding="utf-8")) == []


WORKLOAD = '[workload]\nuse = "flights"\n'
SCRIPT = '[workload]\nscript = "train.py"\n'
MEASURE = WORKLOAD + "[measure]\n"
PLUGIN = WORKLOAD + '[[plugins]]\nuse = "cache"\n'
ODD = WORKLOAD + '[[plugins]]\nuse = "odd one/two"\n'
RIGHT = {
    "least": WORKLOAD,
    "script": SCRIPT + 'args = ["--lr", "0.1"]\nfit = 2\nmax_epochs = 1\nisolate = false\n',
    "duration": MEASURE + 'budget = "1h 30m"\nseconds = "whole"\n',
    "extends": 'extends = "base.toml"\n[workload]\nepochs = 3\n[measure.quality]\ntolerance = 1\n',
    "disabled": PLUGIN + "enabled = false\n",
    "odd": ODD + 'needed = "x"\nsize = 1\nshare = 1\ncalls = 3\ndevice = "/cpu:0"\nown = "any"\n',
}
WRONG = {
    "no workload": ('name = "a"\n', ""),
    "two workloads": (WORKLOAD + 'script = "a.py"\n', "workload/script"),
    "fit of a factory": ('[workload]\nfactory = "a:b"\nfit = 1\n', "workload/fit"),
    "misspelt key": (WORKLOAD + "epoch = 3\n", "workload"),
    "misspelt plugin": (WORKLOAD + '[[plugins]]\nuse = "cahce"\n', "plugins/0/use"),
    "misspelt setting": (PLUGIN + 'storag = "disk"\n', "plugins/0"),
    "second plugin": (PLUGIN + '[[plugins]]\nuse = "l2"\nstrength = 0\n', "plugins/1/strength"),
    "third party's bound": (
        WORKLOAD + '[[plugins]]\nuse = "fewer-updates"\nsteps = 1\n', "plugins/0/steps",
    ),
    "setting without a default": (ODD, "plugins/0"),
    "pattern": (ODD + 'needed = "x"\ndevice = "gpu"\n', "plugins/0/device"),
    "too few pairs": (MEASURE + "pairs = 3\n", "measure/pairs"),
    "no duration": (MEASURE + 'budget = "soon"\n', "measure/budget"),
    "target with two bounds": (
        MEASURE + 'target = { metric = "a", at_least = 1, at_most = 2 }\n',
        "measure/target/at_most",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_a_recipe_may_say_is_taken(validator, text):
    assert refusals(validator, text) == []


@pytest.mark.parametrize(("text", "place"), WRONG.values(), ids=WRONG)
def test_a_typical_mistake_is_refused_at_its_place(validator, text, place):
    assert place in refusals(validator, text)


def test_every_key_is_described(schema):
    def described(table):
        for one in table.get("properties", {}).values():
            yield bool(one["description"])
            yield from described(one)

    assert len([*described(schema)]) > 40
    assert all(described(schema))


def test_a_setting_carries_its_help_and_default():
    info = describe_plugin("odd", Odd)
    said = {setting.name: setting.schema for setting in info.settings}
    assert said["calls"] == {
        "description": "How many at once.",
        "anyOf": [{"type": "integer"}, {"enum": ["auto"]}],
        "default": "auto",
    }
    assert said["size"] == {"type": "integer", "minimum": 1, "exclusiveMaximum": 100, "default": 8}
    assert "default" not in said["share"]


def test_a_broken_plugin_is_left_out_and_harms_no_other():
    broken = PluginInfo(name="ill", distribution="ill", version="1", error="RuntimeError: ill")
    schema = installed_schema([broken, describe_plugin("odd", Odd)])
    assert list(schema["definitions"]) == ["odd"]
    refused = refusals(Draft7Validator(schema), WORKLOAD + '[[plugins]]\nuse = "ill"\n')
    assert refused == ["plugins/0/use"]


ANNOTATIONS = [
    bool, int, float, str, Any, int | None, int | Literal["auto"], Literal["a", 2, True],
    tuple[str, ...], tuple[dict[str, Any], ...], list[int], dict[str, float], bool | str,
]  # fmt: skip
json_values = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5]) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(st.sampled_from(ANNOTATIONS), json_values)
def test_a_type_takes_in_the_schema_what_it_takes_in_a_recipe(annotation, value):
    taken = Draft7Validator(of_annotation(annotation)).is_valid(value)
    assert taken == (not faults_of(value, annotation))
