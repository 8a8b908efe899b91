"""The table `[tune]` and its ranges: what they mean, what is refused, and what editors know."""

import jsonschema
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.hooks.installed.schema import installed_schema
from tfopt_core.recipe.formats import Between, Choices, search_range
from tfopt_core.recipe.model import TuneSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.values import Invalid

HEAD = '[workload]\nuse = "flights"\n'


def reading_of(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(HEAD + text)
    return read_recipe(path)


def test_objective_and_budget_are_read(tmp_path):
    recipe = reading_of(tmp_path, '[tune]\nobjective = "memory"\nbudget = "1h"\n').require()
    assert recipe.tune == TuneSpec(objective="memory", budget_seconds=3600.0)
    assert recipe.to_dict()["tune"] == {"objective": "memory", "budget": 3600.0}


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ('sampler = "tep"', 'did you mean "tpe"?'),
        ('sampler = "cma"', '"qmc"'),
        ('pruner = "medain"', 'did you mean "median"?'),
        ("trials = 0", "at least 1"),
        ("options = [1, 2]", "expected a table"),
    ],
)
def test_a_wrong_value_is_an_error_at_its_key(line, known, tmp_path):
    [problem] = reading_of(tmp_path, f"[tune]\n{line}\n").problems
    assert problem.path == f"tune.{line.split()[0]}"
    assert known in f"{problem.message}; {problem.mend}"


@pytest.mark.parametrize(
    "line",
    ['sampler = "random"', 'pruner = "none"', "trials = 20", "options = { width = [8, 16] }"],
)
def test_each_key_of_settings_asks_for_their_search(line, tmp_path):
    assert reading_of(tmp_path, f"[tune]\n{line}\n").require().tune.searches_settings
    assert not reading_of(tmp_path, '[tune]\nbudget = "1h"\n').require().tune.searches_settings


def test_the_table_does_not_change_what_is_measured(tmp_path):
    with_it = reading_of(tmp_path, '[tune]\nbudget = "1h"\n').require()
    assert with_it.sha256() == reading_of(tmp_path, "").require().sha256()


SCHEMA = jsonschema.Draft7Validator(installed_schema(()))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ([32, 64], Choices((32, 64))),
        (["relu", "gelu"], Choices(("relu", "gelu"))),
        ({"low": 1e-4, "high": 1e-2, "log": True}, Between(1e-4, 1e-2, log=True)),
        ({"low": 8, "high": 64, "step": 8}, Between(8, 64, step=8)),
    ],
)
def test_a_range_is_read(written, meant):
    assert search_range(written) == meant


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "an empty range"),
        ([3], "one choice leaves nothing"),
        ([1, "a"], "several kinds"),
        ([2, 2.0], "stands twice"),
        ({"low": 2, "high": 1}, "low (2) is not below high (1)"),
        ({"low": 0, "high": 1, "log": True}, "begins above 0"),
        ({"low": 1, "high": 9, "log": True, "step": 1}, "no step"),
        ({"low": 0, "high": 1, "step": 2}, "no second value"),
        ({"low": 0, "hihg": 1}, "unknown key"),
        (0.1, "expected an array of choices"),
    ],
)
def test_what_leaves_nothing_to_search_is_refused(written, message):
    with pytest.raises(Invalid) as caught:
        search_range(written)
    assert message in str(caught.value)


def test_each_wrong_range_is_named_at_its_line(tmp_path):
    text = "[tune.options]\nunits = []\nrate = { low = 1, high = 0 }\ngood = [1, 2]\n"
    found = {problem.path: problem for problem in reading_of(tmp_path, text).problems}
    assert set(found) == {"tune.options.units", "tune.options.rate"}
    assert found["tune.options.rate"].line == 5
    assert "two choices" in found["tune.options.units"].mend


@pytest.mark.parametrize("written", ["[0, 8]", "{ low = 1.5, high = 8 }"])
def test_a_batch_size_to_search_is_a_whole_number(tmp_path, written):
    [problem] = reading_of(tmp_path, f"[tune.options]\nbatch_size = {written}\n").problems
    assert problem.path == "tune.options.batch_size"
    assert "[32, 64, 128]" in problem.mend


NUMBERS = st.one_of(
    st.integers(-1000, 1000), st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 6))
)
CHOICES = st.one_of(
    st.lists(st.integers(-(2**60), 2**60), min_size=2, max_size=5, unique=True),
    st.lists(st.text(st.characters(codec="ascii", exclude_categories=("Cc",))), min_size=2,
             max_size=4, unique=True),
    st.just([True, False]),
)  # fmt: skip
BETWEEN = st.tuples(NUMBERS, NUMBERS, st.booleans()).map(
    lambda one: {"low": min(one[:2]), "high": max(one[:2]), "log": one[2]}
)


@given(st.one_of(CHOICES, BETWEEN, st.lists(NUMBERS, max_size=2), NUMBERS))
def test_options_are_read_back_as_written_and_the_schema_knows_what_they_may_be(value):
    text = tomlkit.dumps({"options": {"x": value}})
    data = tomlkit.parse(text).unwrap()["options"]
    allowed = SCHEMA.is_valid({"workload": {"factory": "a:b"}, "tune": {"options": data}})
    try:
        range_ = search_range(data["x"])
    except Invalid:
        return  # the schema cannot compare low with high
    assert allowed
    spec = TuneSpec(options=data)
    assert spec.to_dict() == {"budget": 900.0, "options": {"x": value}}
    assert spec.ranges == {"x": range_}
    ends = range_.values if isinstance(range_, Choices) else (range_.low, range_.high)
    assert all(range_.holds(end) for end in ends)
