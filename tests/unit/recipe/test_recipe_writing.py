"""What is written as a recipe is what reading gives back, whatever its texts hold."""

from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.commands.check import check_recipe
from tfopt_core.recipe.model import RESERVED_KEYS
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.shipped import shipped_recipes
from tfopt_core.recipe.writing import COLUMNS, PlannedPlugin, SpareKey, recipe_text, text_of

CACHE = PlannedPlugin("cache", {"storage": "disk", "steps": 2}, why="reading took most of a step")


def written(**changes):
    said = {
        "name": "train",
        "description": "Faster here.",
        "workload": {"script": "train.py"},
        "plugins": [CACHE],
        "measure": {"budget": "10m"},
    }
    return recipe_text(**{**said, **changes})


def test_a_recipe_is_written_as_people_write_one():
    text = written(
        heading=["When to use: on a laptop."],
        workload={"script": "train.py", "args": ("--lr", "0.1")},
        plugins=[CACHE, PlannedPlugin("xla", why="a compiled loop", enabled=False)],
        measure={"pairs": 4, "quality": {"metric": "val_loss", "tolerance": 0.01}},
        notes={"measure.pairs": "more is surer", "plugins.cache.storage": "it is too large"},
        spare=[SpareKey("workload", "max_epochs", 2, "for a quick look")],
    )
    assert text == (
        "# When to use: on a laptop.\n"
        'name = "train"\n'
        'description = "Faster here."\n'
        "\n"
        "[workload]\n"
        'script = "train.py"\n'
        'args = ["--lr", "0.1"]\n'
        "# max_epochs = 2            # for a quick look\n"
        "\n"
        "# reading took most of a step\n"
        "[[plugins]]\n"
        'use = "cache"\n'
        'storage = "disk"            # it is too large\n'
        "steps = 2\n"
        "\n"
        "# a compiled loop\n"
        "[[plugins]]\n"
        'use = "xla"\n'
        "enabled = false\n"
        "\n"
        "[measure]\n"
        "pairs = 4                   # more is surer\n"
        'quality = { metric = "val_loss", tolerance = 0.01 }\n'
    )


def test_comments_are_wrapped_and_hold_nothing_that_toml_forbids():
    reason = "the input pipeline takes\x00longer\nthan the step " * 6
    text = written(
        plugins=[PlannedPlugin("cache", {"size": 1}, why=reason)],
        notes={"plugins": reason, "workload": reason, "measure.budget": reason, "name": reason},
        spare=[SpareKey("measure", "pairs", 4, reason)],
        heading=[reason, "", "b"],
    )
    assert max(map(len, text.splitlines())) <= COLUMNS
    said = " ".join(text.replace("#", "").split())
    assert said.count("the input pipeline takes longer than the step") == 6 * 7
    assert "\n#\n# b\n" in text


def test_a_table_too_long_for_a_line_gets_a_header_and_a_long_array_gets_lines(tmp_path):
    options = {"classes": 5, "folder": "x" * COLUMNS}
    arguments = ["--data", "y" * COLUMNS]
    for workload in ({"use": "a", "options": options}, {"script": "a.py", "args": arguments}):
        text = written(workload=workload, spare=[SpareKey("workload", "epochs", 3)])
        path = tmp_path / "recipe.toml"
        path.write_text(text, encoding="utf-8")
        assert read_recipe(path).require().to_dict()["workload"] == workload
    assert '\nargs = [\n    "--data",\n' in text


def test_a_plugin_s_table_too_long_for_a_line_stays_its_own(tmp_path):
    settings = {"layers": {"first": "x" * COLUMNS}, "size": 3}
    path = tmp_path / "recipe.toml"
    path.write_text(written(plugins=[PlannedPlugin("a.b", settings), CACHE]), encoding="utf-8")
    first, second = read_recipe(path).require().plugins
    assert (first.settings, second.settings) == (settings, CACHE.settings)


def test_what_has_no_value_is_left_out():
    text = written(
        description="", measure={}, plugins=[PlannedPlugin("a", {"b": None, "c": {"d": None}})]
    )
    assert "None" not in text
    assert "description" not in text
    assert "[measure]" not in text
    assert "b =" not in text


texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = texts.filter(str.strip)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.dates(),
    st.times(),
    st.datetimes(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
tables = st.dictionaries(texts, values, max_size=4)
plugins = st.lists(
    st.builds(
        PlannedPlugin,
        use=words,
        settings=tables.map(lambda t: {k: v for k, v in t.items() if k not in RESERVED_KEYS}),
        why=texts,
        enabled=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda plugin: plugin.use,
)


@given(words, texts, tables, plugins, st.lists(texts), texts)
def test_reading_gives_what_was_written(
    tmp_path_factory, name, description, options, stack, heading, note
):
    text = recipe_text(
        name=name,
        description=description,
        workload={"factory": "a:b", "options": options},
        plugins=stack,
        measure={"pairs": 4, "target": {"metric": name, "at_least": 0.5}},
        heading=heading,
        notes={"workload": note, "plugins": note, "name": note, "measure.target": note},
        spare=[SpareKey("measure", "budget", description, note)],
    )
    path = tmp_path_factory.getbasetemp() / "written.toml"
    path.write_bytes(text.encode("utf-8"))
    recipe = read_recipe(path).require()
    assert (recipe.name, recipe.description) == (name, description)
    assert recipe.workload.options == options
    assert [(entry.use, entry.settings) for entry in recipe.plugins] == [
        (plugin.use, plugin.settings) for plugin in stack if plugin.enabled
    ]
    assert recipe.measure.target is not None
    assert recipe.measure.target.metric == name


def test_a_recipe_that_was_read_is_written_as_one_that_can_be_measured(tmp_path):
    for name in shipped_recipes():
        recipe = read_recipe(name, []).require()
        copy = tmp_path / f"{name}.toml"
        copy.write_text(text_of(recipe), encoding="utf-8")
        read_back = check_recipe(str(copy)).recipe
        assert read_back.sha256() == recipe.sha256()
        assert read_back.measure == recipe.measure
