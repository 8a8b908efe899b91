"""A recipe laid over another one."""

import pytest

from tfopt_core.recipe.model import MeasureSpec, WorkloadSpec
from tfopt_core.recipe.reading import read_recipe

BASE = """\
description = "base"
[workload]
use = "mnist"
epochs = 5
options = { classes = 5, deep = { a = 1, b = 2 } }
[[plugins]]
use = "precision"
policy = "auto"
[[plugins]]
use = "cache"
storage = "ram"
size = 3
[[plugins]]
use = "xla"
[measure]
pairs = 8
target = { metric = "loss", at_most = 1.0 }
"""
OVER = 'extends = "base.toml"\n'


def test_another_metric_of_quality_drops_what_was_said_of_the_first(tmp_path):
    base = tmp_path / "base.toml"
    base.write_text(
        '[workload]\nuse = "w"\n[measure]\n'
        'quality = { metric = "val_accuracy", tolerance = 0.01, direction = "max" }\n'
    )
    other = read_recipe(base, ["measure.quality.metric=val_loss"]).require().measure.quality
    assert (other.metric, other.tolerance, other.direction) == ("val_loss", None, None)
    same = read_recipe(base, ["measure.quality.metric=val_accuracy"]).require().measure.quality
    assert (same.tolerance, same.direction) == (0.01, "max")


@pytest.mark.parametrize(
    ("was", "changes", "pairs", "budget"),
    [
        ("budget = 300", ["pairs=12"], 12, None),
        ("pairs = 8", ["budget=5m"], None, 300.0),
        ("pairs = 8", ["pairs=4"], 4, None),
        # both are an error, which a command that compares reports
        ("budget = 300", ["pairs=12", "budget=9"], 12, 9.0),
    ],
)
def test_a_number_of_pairs_takes_the_place_of_a_budget_and_a_budget_that_of_the_number(
    tmp_path, was, changes, pairs, budget
):
    base = tmp_path / "base.toml"
    base.write_text(f'[workload]\nuse = "w"\n[measure]\n{was}\n')
    overrides = [f"measure.{change}" for change in changes]
    measure = read_recipe(base, overrides).require().measure
    expected = MeasureSpec().budget_seconds if budget is None else budget
    assert (measure.pairs, measure.budget_seconds) == (pairs, expected)


def test_tables_merge_key_by_key(read):
    text = (
        OVER + "[workload]\nbatch_size = 7\n[workload.options.deep]\nb = 3\n"
        '[measure]\nseconds = "whole"'
    )
    recipe = read(text, base=BASE).require()
    assert recipe.description == "base"
    assert recipe.name == "recipe"
    assert (recipe.workload.use, recipe.workload.epochs, recipe.workload.batch_size) == (
        "mnist", 5, 7,
    )  # fmt: skip
    assert recipe.workload.options == {"classes": 5, "deep": {"a": 1, "b": 3}}
    assert (recipe.measure.pairs, recipe.measure.seconds) == (8, "whole")


def test_a_plugin_named_again_replaces_in_place_and_new_ones_follow(read):
    text = OVER + "[[plugins]]\nuse='new'\n[[plugins]]\nuse='cache'\nstorage='disk'\n"
    recipe = read(text, base=BASE).require()
    assert [(entry.use, entry.settings) for entry in recipe.plugins] == [
        ("precision", {"policy": "auto"}),
        ("cache", {"storage": "disk"}),
        ("xla", {}),
        ("new", {}),
    ]


def test_disabled_plugins_leave_the_stack(read):
    text = OVER + "[[plugins]]\nuse='cache'\nenabled=false\n[[plugins]]\nuse='other'\nenabled=false"
    recipe = read(text, base=BASE).require()
    assert [entry.use for entry in recipe.plugins] == ["precision", "xla"]


OPTIONS = {"classes": 5, "deep": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("child", "workload"),
    [
        ("factory = 'a:b'", WorkloadSpec(factory="a:b", epochs=5)),
        ("use = 'other'", WorkloadSpec(use="other", epochs=5)),
        ("use = 'mnist'\noptions.x = 1",
         WorkloadSpec(use="mnist", epochs=5, options={**OPTIONS, "x": 1})),
        ("script = 'a.py'", WorkloadSpec(script="a.py")),
    ],
)  # fmt: skip
def test_another_workload_takes_no_options_of_the_base_and_a_script_nothing(read, child, workload):
    assert read(f"{OVER}[workload]\n{child}", base=BASE).require().workload == workload


def test_another_workload_takes_no_baseline_or_ranges_of_the_base(read):
    base = (
        "[workload]\nfactory = 'a.py:build'\noptions = { rate = 0.1 }\n"
        "[measure]\npairs = 8\nbaseline = { options = { rate = 0.2 } }\n"
        "[tune]\nbudget = '5m'\noptions.rate = { low = 0.1, high = 0.9 }\n"
    )
    same = read(OVER + "[workload]\nfactory = 'a.py:build'", base=base).require()
    assert same.measure.baseline is not None
    assert list(same.tune.options) == ["rate"]
    for child in ("factory = 'b.py:build'", "use = 'mnist'"):
        other = read(f"{OVER}[workload]\n{child}", base=base).require()
        assert other.measure.baseline is None
        assert (other.measure.pairs, other.tune.budget_seconds, other.tune.options) == (8, 300, {})


def test_another_bound_replaces_the_base_s(read):
    target = read(OVER + "[measure]\ntarget.at_least = 0.5", base=BASE).require().measure.target
    assert target is not None
    assert (target.metric, target.at_least, target.at_most) == ("loss", 0.5, None)


def test_two_workloads_in_the_extending_recipe_are_two(complaints):
    lines = complaints(OVER + "[workload]\nuse='other'\nfactory='a:b'", base=BASE)
    assert lines == [
        'recipe.toml:4: workload.factory: two workloads: "use" and "factory"; keep one of them'
    ]


def test_problems_of_a_base_name_its_file_after_those_of_the_recipe(complaints):
    base = "naem = 1\n" + BASE + "[[plugins]]\nuse = 'late'\nx = nan\n"
    assert complaints(OVER + "\nz = 1\n", base=base) == [
        "recipe.toml:3: z: unknown key; known keys: description, extends, measure, name, "
        "plugins, tune, workload",
        'base.toml:1: naem: unknown key; did you mean "name"?',
        "base.toml:21: plugins[3].x: expected a finite number, got nan",
    ]


def test_a_recipe_that_extends_itself_shows_the_ring(complaints):
    assert complaints('extends = "recipe.toml"') == [
        'recipe.toml:1: extends: the recipe extends itself: "recipe.toml" extends "recipe.toml"; '
        "take out one of these lines"
    ]
    (line,) = complaints('extends = "a.toml"', a='extends = "b.toml"', b='\nextends = "./a.toml"')
    assert line.startswith(
        'b.toml:2: extends: the recipe extends itself: "a.toml" extends "b.toml" extends "a.toml"'
    )


def test_a_missing_base_is_one_problem_and_no_further_ones(complaints):
    lines = complaints('extends = "bsae.toml"', "plugins.cache.size=1", base=BASE)
    assert lines == [
        'recipe.toml:1: extends: there is no file and no shipped recipe "bsae.toml"; '
        'did you mean "base.toml"?'
    ]


def test_a_base_is_found_from_the_recipe_s_folder(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "top.toml").write_text('extends = "../base.toml"\n')
    (folder / "base.toml").write_text("x = 1\n" + BASE)
    reading = read_recipe("sub/top.toml")
    assert [str(problem)[: len("sub/../base.toml:1: x")] for problem in reading.problems] == [
        "sub/../base.toml:1: x"
    ]


def test_a_shipped_recipe_can_be_extended(folder):
    (folder / "mine.toml").write_text('extends = "quickstart"\n')
    recipe = read_recipe("mine.toml").require()
    assert recipe.plugins == read_recipe("quickstart").require().plugins
    assert recipe.directory == folder


def test_a_chain_is_merged_from_its_end(read):
    middle = OVER + "[measure]\npairs = 5\n[[plugins]]\nuse='cache'\nsize=9"
    recipe = read(
        'extends = "mid.toml"\n[measure]\nseconds="whole"', mid=middle, base=BASE
    ).require()
    assert (recipe.measure.pairs, recipe.measure.seconds) == (5, "whole")
    assert recipe.plugins[1].settings == {"size": 9}
    assert recipe.plugins[1].where.place.file == "mid.toml"
