"""A good recipe becomes the model; a bad one gives all of its problems at once."""

import pytest
import tomlkit
from hypothesis import given
from support.mangled import mangled_recipes

from tfopt_core.recipe.model import MeasureSpec, PluginEntry, QualitySpec, TargetSpec, WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.tree import Fault, Place

MINIMAL = '[workload]\nuse = "mnist"\n'
FULL = """\
#:schema ./recipe.schema.json
name = "fashion-fast"
description = "When to use this."

[workload]
use = "fashion-mnist"
epochs = 10
batch_size = 32
[workload.options]
classes = 5

[[plugins]]
use = "mixed-precision"
policy = "auto"

[[plugins]]
use = "cache"
limits = { memory = "1G", files = [1, 2] }

[measure]
pairs = 8
seconds = 7
budget = "1h30m"
attribution = "leave-one-out"
quality = { metric = "val_accuracy", tolerance = 0, direction = "max" }
target = { metric = "val_accuracy", at_least = 0.90 }
"""


def test_every_key_of_a_recipe_arrives(read, folder):
    recipe = read(FULL).require()
    assert (recipe.name, recipe.description) == ("fashion-fast", "When to use this.")
    assert recipe.workload == WorkloadSpec(
        use="fashion-mnist", epochs=10, batch_size=32, options={"classes": 5}
    )
    assert recipe.plugins == (
        PluginEntry("mixed-precision", {"policy": "auto"}),
        PluginEntry("cache", {"limits": {"memory": "1G", "files": [1, 2]}}),
    )
    assert recipe.measure == MeasureSpec(
        pairs=8,
        seconds=7.0,
        budget_seconds=5400.0,
        attribution="leave-one-out",
        quality=QualitySpec("val_accuracy", 0.0, "max"),
        target=TargetSpec("val_accuracy", at_least=0.9),
    )
    assert (recipe.path, recipe.directory) == (folder / "recipe.toml", folder)


def test_a_recipe_needs_no_more_than_a_workload(read):
    recipe = read(MINIMAL).require()
    assert recipe.name == "recipe"
    assert (recipe.plugins, recipe.measure) == ((), MeasureSpec())


@pytest.mark.promise(27, injected="fourteen mistakes in one recipe and --set, nan among them")
def test_all_problems_of_a_recipe_come_at_once_in_order(complaints):
    text = """\
nam = "x"
epochs = 3
[workload]
use = "a"
factory = "b:c"
epochs = true
clases = 5
[[plugins]]
use = "cache"
ratio = [1, nan]
[[plugins]]
use = "cache"
enabled = 1
[measure]
pairs = 3
budget = "10x"
quality = { tolerance = -1, directon = "up" }
"""
    known = (
        "args, batch_size, environment, epochs, factory, fit, folder, isolate, loop, "
        "max_epochs, max_steps, module, options, script, use"
    )
    assert complaints(text, "measure.secnds=3") == [
        'recipe.toml:1: nam: unknown key; did you mean "name"?',
        'recipe.toml:2: epochs: unknown key; it belongs under "workload"',
        'recipe.toml:5: workload.factory: two workloads: "use" and "factory"; keep one of them',
        "recipe.toml:6: workload.epochs: expected a whole number, got true (a boolean)",
        f"recipe.toml:7: workload.clases: unknown key; known keys: {known} "
        '(arguments of a factory stand under "workload.options")',
        "recipe.toml:10: plugins[0].ratio[1]: expected a finite number, got nan",
        'recipe.toml:11: plugins[1]: plugin "cache" is listed twice, at lines 8 and 11; '
        "keep one of them",
        "recipe.toml:13: plugins[1].enabled: expected a boolean, got 1 (a whole number)",
        "recipe.toml:15: measure.pairs: expected a whole number of at least 4, "
        "got 3 (a whole number)",
        'recipe.toml:16: measure.budget: expected a duration, got "10x" (a string); '
        'write a string such as "10m", "90s" or "1h30m", or a number of seconds',
        "recipe.toml:17: measure.quality.tolerance: expected a number of at least 0, "
        "got -1 (a whole number)",
        'recipe.toml:17: measure.quality.directon: unknown key; did you mean "direction"?',
        'recipe.toml:17: measure.quality: "metric" is missing; '
        'add, for example, metric = "val_accuracy"',
        '--set measure.secnds=3: measure.secnds: unknown key; did you mean "seconds"?',
    ]


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ("", "recipe.toml: no workload; add [workload] with use, factory, script or module"),
        ("[workload]", "recipe.toml:1: workload: no workload; give use, factory, script or module"),
        (
            '[workload]\nscript = "a.py"\nfactory = "b:c"\nuse = "d"',
            'recipe.toml:3: workload.factory: three workloads: "use", "factory" and "script"',
        ),
        (
            '[workload]\nmodule = "a.b"\nenvironment.PYTHONPATH = "src"',
            "workload.environment.PYTHONPATH: PYTHONPATH is about the start of Python",
        ),
        ('[workload]\nuse = "a"\nepochs = 0', ":3: workload.epochs: expected a whole number of at"),
        ('[workload]\nuse = "a"\noptions.x = 0x' + "f" * 5000, "does not fit 64 bits"),
    ],
)
def test_a_bad_workload_is_named(complaints, workload, complaint):
    (line,) = complaints(workload)
    assert complaint in line


def test_what_a_script_decides_does_not_stand_beside_it(complaints):
    text = '[workload]\nscript = "a.py"\nargs = ["--x", 1, 2]\nepochs = 1\nbatch_size = 2\n'
    lines = complaints(text + "options = { a = 1 }")
    assert [line.split(": ")[1] for line in lines] == [
        "workload.args[1]",
        "workload.args[2]",
        "workload.epochs",
        "workload.batch_size",
        "workload.options",
    ]


def test_a_script_in_the_place_of_a_recipe_is_told_what_to_do():
    (problem,) = read_recipe("train.py").problems
    assert problem.mend == "`tfopt apply train.py` and `tfopt init train.py` write a recipe for it"


def test_a_script_has_arguments_and_limits_of_its_own(read):
    text = '[workload]\nscript = "a.py"\nargs = ["--lr", "0.1"]\nmax_steps = 5\nfit = 2\n'
    workload = read(text + "isolate = false").require().workload
    assert (workload.args, workload.max_steps, workload.fit) == (("--lr", "0.1"), 5, 2)
    assert workload.isolate is False


def test_a_loop_of_the_scripts_own_has_no_limits_of_fit(complaints):
    text = '[workload]\nscript = "a.py"\nloop = "own"\nmax_steps = 5\n'
    assert complaints(text) == []
    (line,) = complaints(f"{text}fit = 2\n")
    assert line == (
        "recipe.toml:5: workload.fit: a loop of the script's own has no call of fit; remove it; "
        '"max_steps" ends a run after so many updates'
    )


@pytest.mark.parametrize(
    ("measure", "complaint"),
    [
        ("pairs = 4.0", "got 4.0 (a number)"),
        (
            'seconds = "full"',
            'above 0 or "whole", got "full" (a string)',
        ),
        ("budget = nan", "expected a finite number, got nan"),
        ('budget = "0s"', "expected a finite duration above 0"),
        ('attribution = "full"', 'attribution: expected "auto", "off" or "leave-one-out"'),
        ('metric = "a"', 'it belongs under "measure.quality" or under "measure.target"'),
        ('quality = { metric = "a", tolerance = nan }', "a finite number, got nan"),
        ('target = { metric = "a" }', "measure.target: no bound; give at_least or at_most"),
        ('target = { metric = "a", at_least = 1, at_most = 2 }', "two bounds: "),
    ],
)
def test_a_bad_measure_is_named(complaints, measure, complaint):
    (line,) = complaints(f"{MINIMAL}[measure]\n{measure}\n")
    assert line.startswith("recipe.toml:4: measure.") or line.startswith("recipe.toml:4: measure:")
    assert complaint in line


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [('"10m"', 600.0), ('"90s"', 90.0), ('"1h30m"', 5400.0), ('"2h"', 7200.0), ("7", 7.0),
     ('"1.5h"', 5400.0), ("0.5", 0.5), ('"1h 5s"', 3605.0)],
)  # fmt: skip
def test_a_budget_is_read_as_seconds(read, budget, seconds):
    recipe = read(f"{MINIMAL}[measure]\nbudget = {budget}").require()
    assert recipe.measure.budget_seconds == seconds


@pytest.mark.parametrize(
    ("plugins", "complaint"),
    [
        ("[plugins.cache]", ":3: plugins: expected an array of tables, got a table; write each"),
        ("plugins = ['cache']", ':1: plugins[0]: expected a table, got "cache" (a string)'),
        ("[[plugins]]\nsize = 1", ":3: plugins[0]: the plugin has no name; add use"),
        ("[[plugins]]\nuse = ' '", ":4: plugins[0].use: expected a string that is not empty"),
        ("[[plugins]]\nuse = 'a'\na.b = [{ c = nan }]", ":5: plugins[0].a.b[0].c: expected a fin"),
    ],
)
def test_a_bad_plugin_is_named(complaints, plugins, complaint):
    text = plugins + "\n" + MINIMAL if plugins.startswith("plugins") else MINIMAL + plugins
    (line,) = complaints(text)
    assert complaint in line


def test_a_setting_that_no_recipe_can_hold_leaves_no_recipe(read):
    reading = read(MINIMAL + "[[plugins]]\nuse = 'a'\nx = inf")
    assert reading.recipe is None
    assert reading.entries == (PluginEntry("a", {"x": float("inf")}),)


def test_plugins_are_read_although_the_rest_is_broken(read):
    reading = read("name = 1\n[[plugins]]\nuse = 'a'\nx = 1\n[[plugins]]\n[[plugins]]\nuse = 'b'")
    assert [entry.use for entry in reading.entries] == ["a", "b"]
    assert reading.recipe is None
    unknown = Fault("unknown setting", at=("size",))
    more = [one for entry in reading.entries for one in entry.where.problems([unknown])]
    more.append(reading.problem("name", "said a second time"))
    lines = [str(problem) for problem in reading.with_problems(more).problems]
    assert lines == [
        "recipe.toml: no workload; add [workload] with use, factory, script or module",
        "recipe.toml:1: name: expected a string, got 1 (a whole number)",
        "recipe.toml:2: plugins[0].size: unknown setting",
        'recipe.toml:5: plugins[1]: the plugin has no name; add use = "NAME"',
        "recipe.toml:6: plugins[2].size: unknown setting",
    ]


def test_a_later_check_can_place_its_problem_at_any_key(read):
    reading = read(FULL)
    (first, second) = (entry.where for entry in reading.entries)
    assert first.place_at(("policy",)) == Place("recipe.toml", 14, "plugins[0].policy")
    assert str(second.place_at(()).problem("no", "do")) == "recipe.toml:16: plugins[1]: no; do"
    assert second.place_at(("limits", "files", 1)).line == 18
    assert second.place_at(("limits", "absent")).line == 18
    assert second.place_at(("absent",)).line == 16
    assert reading.problem("measure.quality.metric", "no").line == 25
    (problem,) = second.problems([Fault("no", at=("limits",))])
    assert reading.problem("plugins.cache.limits", "no") == problem
    assert str(reading.problem("measure.absent", "x")) == "recipe.toml:20: measure.absent: x"
    assert str(reading.problem("plugins", "empty")) == "recipe.toml:12: plugins: empty"


def test_the_hash_is_of_what_a_recipe_says(read):
    def hash_of(text):
        return read(text).require().sha256()

    original = hash_of(FULL)
    assert original == hash_of("# other\n\n" + FULL.replace('"1h30m"', "5400.0"))
    assert original == hash_of(
        FULL.replace("epochs = 10\nbatch_size = 32", "batch_size=32\nepochs=10")
    )
    assert original == hash_of(FULL.replace("fashion-fast", "other"))
    for word, other in [("auto", "x"), ("classes = 5", "classes = 6"), ("pairs = 8", "pairs = 9")]:
        assert original != hash_of(FULL.replace(word, other))


def test_dates_in_options_become_text_in_data(read):
    recipe = read(MINIMAL + "options = { day = 2020-01-02, at = 07:30:00 }").require()
    assert recipe.to_dict()["workload"]["options"] == {"day": "2020-01-02", "at": "07:30:00"}


@given(mangled_recipes(FULL))
def test_a_mangled_recipe_gives_problems_with_lines_that_are_there(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "mangled.toml"
    path.write_bytes(text.encode("utf-8"))
    reading = read_recipe(path)
    assert reading.recipe is not None or reading.problems
    for problem in reading.problems:
        assert 0 <= problem.line <= text.count("\n") + 1, problem
        assert len(str(problem).splitlines()) == 1, problem
    if not reading.problems:
        again = path.with_name("again.toml")
        again.write_text(tomlkit.dumps(reading.require().to_dict()), encoding="utf-8")
        assert read_recipe(again).require().sha256() == reading.require().sha256()
