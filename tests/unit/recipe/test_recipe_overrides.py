"""`--set path=value`."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfopt_core.errors import Problem
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.tree import Place, join_path

RECIPE = """\
[workload]
use = "mnist"
epochs = 5
options = { classes = 3 }
[[plugins]]
use = "multi-worker"
size = 1
[[plugins]]
use = "cache"
storage = "ram"
[[plugins]]
use = "off"
enabled = false
[measure]
quality = { metric = "loss" }
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("disk", "disk"), ("3", 3), ("1.5", 1.5), ("true", True), ('"3"', "3"), ("[1, 2]", [1, 2]),
        ("{ a = 1 }", {"a": 1}), ("", ""), ("a=b", "a=b"), ("1, 2", "1, 2"), ("1,", "1,"),
        ("3 # x", "3 # x"), ("1\nb = 2", "1\nb = 2"), ("/a b/c", "/a b/c"), ("[1", "[1"),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000), ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_a_value_is_a_toml_value_or_a_string(read, text, value):
    recipe = read(RECIPE, f"plugins.cache.storage={text}").require()
    assert recipe.plugins[1].settings["storage"] == value
    assert type(recipe.plugins[1].settings["storage"]) is type(value)


def test_every_part_of_a_recipe_can_be_set(read):
    recipe = read(
        RECIPE,
        "name=other",
        "workload.epochs=3",
        "workload.options.classes=5",
        "measure.pairs=4",
        "measure.quality.tolerance=0.01",
        "plugins.multi-worker.size=2",
        'plugins.cache."odd=key".x=1',
        "plugins.cache.enabled=true",
    ).require()
    assert (recipe.name, recipe.workload.epochs, recipe.measure.pairs) == ("other", 3, 4)
    assert recipe.workload.options == {"classes": 5}
    assert recipe.measure.quality is not None
    assert recipe.measure.quality.tolerance == 0.01
    assert [entry.settings for entry in recipe.plugins] == [
        {"size": 2},
        {"storage": "ram", "odd=key": {"x": 1}},
    ]


def test_a_plugin_can_be_taken_out_and_put_back_where_it_stood(read):
    recipe = read(
        RECIPE, "plugins.cache.enabled=false", "plugins.off.x=1", "plugins.off.enabled=true"
    )
    assert [entry.use for entry in recipe.require().plugins] == ["multi-worker", "off"]


def test_the_order_of_overrides_does_not_matter(read):
    texts = ["workload.options.x=1", "workload.factory=a:b"]
    one, two = read(RECIPE, *texts).require(), read(RECIPE, *reversed(texts)).require()
    assert one == two
    assert one.workload.options == {"x": 1}
    assert one.workload.use is None


@pytest.mark.promise(27, injected="mistakes in --set")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("measure", ": this is no path=value; write path=value"),
        ("a#b=3", ": this is no path=value"),
        ("a." * 400_000 + "a=1", ": this is no path=value"),
        ("plugins=1", ": plugins: this names no setting of a plugin; write plugins.NAME.key=value"),
        ("plugins.cach.x=1", ': plugins.cach.x: no plugin "cach" in the stack; did you mean "cach'),
        ("plugins.zzzz.x=1", 'in the stack; the stack holds "multi-worker", "cache"'),
        ("plugins.cache.use=x", ": plugins.cache.use: a plugin's name cannot be set"),
        ("plugins.cache.enabled=no", ": plugins.cache.enabled: expected a boolean"),
        ("plugins.cache.enabled.x=true", '"enabled" has no keys of its own'),
        ("plugins.off.x=1", 'plugin "off" is disabled; add --set plugins.off.enabled=true'),
        ("extends=base.toml", ": extends: what a recipe extends cannot be set"),
        ("workload.epochs=many", ': workload.epochs: expected a whole number, got "many"'),
        ("workload.args=[1]", ": workload.args[0]: expected a string, got 1"),
        ("measure=3", ": measure: expected a table, got 3 (a whole number)"),
    ],
)
def test_a_bad_override_names_itself(complaints, text, complaint):
    line = complaints(RECIPE, text)[0]
    assert line.startswith(f"--set {text}: ")
    assert complaint in line


def test_a_setting_names_the_option_that_gave_it(read):
    where = read(RECIPE, "plugins.cache.storage=disk", "plugins.cache.a.b=1").entries[1].where
    assert str(where.place_at(("storage",)).problem("unknown storage")) == (
        "--set plugins.cache.storage=disk: plugins.cache.storage: unknown storage"
    )
    assert where.place_at(("a", "b")).file == "--set plugins.cache.a.b=1"
    assert where.place_at(("use",)) == Place("recipe.toml", 9, "plugins[1].use")


def test_bad_overrides_are_reported_beside_a_broken_file(complaints):
    first, second = complaints("a =\n", "measure")
    assert first.startswith("recipe.toml:1:")
    assert second.startswith("--set measure: ")


# Paths of a recipe and others, and what may stand behind them.
paths = st.sampled_from([
    "name", "extends", "workload", "workload.epochs", "workload.options", "workload.options.x",
    "workload.args", "workload.factory", "plugins", "plugins.cache", "plugins.cache.storage",
    "plugins.cache.enabled", "plugins.off.x", "plugins.off.enabled", "plugins.'a.b'.c", "measure",
    "measure.pairs", "measure.quality", "measure.quality.metric", "measure.target.at_least", "tune",
    "tune.budget", "", ".", "a..b", '"', "a#b", "a[0]", "a.b.c.d.e.f",
])  # fmt: skip
values = st.one_of(
    st.text("01ae.-+_=[]{}\"'#\\\n, ", max_size=12),
    st.sampled_from(
        ["4", "true", "nan", "1e999", "[[[]]]", "{ a = { b = 1 } }", "{}", "-0", "9" * 40]
    ),
    st.text(st.characters(), max_size=6),  # a shell hands over what is no UTF-8 as surrogates
)


@example(["workload=\x85"])  # a sign that ends a line for some
@given(st.lists(st.builds("{}={}".format, paths, values) | st.text(st.characters()), max_size=4))
def test_no_override_makes_reading_raise(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "overridden.toml"
    path.write_text(RECIPE, encoding="utf-8")
    reading = read_recipe(path, texts)
    assert all(isinstance(problem, Problem) for problem in reading.problems)
    assert reading.recipe is not None or reading.problems
    for problem in reading.problems:
        assert len(str(problem).splitlines()) == 1, problem
    if reading.recipe is not None:
        assert len(reading.recipe.sha256()) == 64


@example("\x7f", 0)  # which JSON does not escape
@given(
    st.text(st.characters(codec="utf-8"), max_size=8).filter(
        lambda key: key not in ("use", "enabled")
    ),
    st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.text("ab cé'=", max_size=8),
)
def test_whatever_key_is_set_arrives_with_its_value(tmp_path_factory, key, value):
    path = tmp_path_factory.getbasetemp() / "set.toml"
    path.write_text(RECIPE, encoding="utf-8")
    text = f'"{value}"' if isinstance(value, str) else str(value).lower()
    where = join_path("", ("plugins", "cache", key))
    recipe = read_recipe(path, [f"{where}={text}"]).require()
    assert recipe.plugins[1].settings == {"storage": "ram"} | {key: value}
