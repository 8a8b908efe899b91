"""Plugins of other distributions that do not import, share a name, or are not asked for."""

import textwrap

import pytest
from support.real_process import environment, make_distribution, tfopt, tfopt_anew, tiny_project

GOOD = '''
    import pathlib
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl
    import sys
    with open(pathlib.Path(__file__).with_name(__name__ + "_was_imported"), "a") as told:
        print(*sys.orig_argv, file=told)

    @attrs.frozen(kw_only=True, eq=False)
    class Good(Plugin):
        """Does nothing much."""

        equivalence = "exact"

        @hookimpl
        def configure_runtime(self, options):
            return options
'''

BROKEN = {
    "raises": ('raise RuntimeError("the module is ill")', "RuntimeError: the module is ill"),
    "exits": ("raise SystemExit(7)", "SystemExit: 7"),
    "classless": ("class Good: pass", "does not derive from Plugin"),
    "leaves": ("import os; os._exit(3)", "ended with status 3 while it was imported"),
    "aborts": ("import os; os.abort()", "killed by SIGABRT while it was imported"),
    "closes": (
        "import os\nfor number in (0, 1, 2): os.close(number)\nraise RuntimeError('no stream')",
        "RuntimeError: no stream",
    ),
    "coded": ("raise RuntimeError('a\\n\\x1b[31mred')", "a \\x1b[31mred"),
}


def with_plugin(folder, name, code=GOOD):
    """A folder with a distribution of this name, whose one plugin has it too."""
    module = f"{name}_module"
    return make_distribution(folder / "site", name, {name: f"{module}:Good"}, **{module: code})


@pytest.fixture(scope="module")
def ill(tmp_path_factory):
    """A folder with a distribution for each broken plugin."""
    site = tmp_path_factory.mktemp("ill")
    for name, (code, _) in BROKEN.items():
        module = f"{name}_module"
        make_distribution(site, f"{name}-dist", {name: f"{module}:Good"}, "2.5", **{module: code})
    return site


@pytest.mark.promise(21, injected="modules that raise, exit, abort or are no plugin")
def test_named_plugins_that_cannot_be_loaded_are_a_line_each_with_their_distribution(ill, tmp_path):
    project = tiny_project(tmp_path, plugin='"\n[[plugins]]\nuse = "'.join(BROKEN))
    done = tfopt("apply", "recipe.toml", cwd=project, site=ill)
    assert done.code == 2
    lines = done.err.splitlines()
    for (name, (_, said)), line in zip(BROKEN.items(), lines, strict=True):
        number = list(BROKEN).index(name)
        assert line.startswith(f"error: recipe.toml:{7 + 2 * number}: plugins[{number}].use: ")
        assert f'"{name}"' in line
        assert said in line
        if "Error" in said or "Exit" in said:
            assert f"{name}-dist 2.5" in line


@pytest.mark.promise(21, injected="the same, beside whole plugins")
@pytest.mark.promise(22, injected="os.abort() at the top of the module")
def test_broken_plugins_are_listed_with_their_errors_and_others_as_ever(ill, tmp_path):
    done = tfopt("plugins", cwd=tmp_path, site=ill)
    assert done.code == 0, done.err
    flowing = " ".join(done.out.split())
    for name in ("raises", "aborts"):
        assert BROKEN[name][1] in flowing
        assert f"{name}-dist 2.5" in flowing
    for name in ("cache", "xla", "threads"):
        assert any(line.split()[:1] == [name] for line in done.out.splitlines())
    assert "Traceback" not in done.out + done.err
    shown = tfopt("plugins", "show", "aborts", cwd=tmp_path, site=ill)
    assert shown.code == 2
    assert "killed by SIGABRT while it was imported" in shown.err
    assert tfopt("plugins", "show", "cache", cwd=tmp_path, site=ill).code == 0


def test_what_a_plugin_prints_while_it_is_imported_disturbs_nothing(tmp_path):
    noise = 'print(\'{"begin": "cache"}\', "no JSON", flush=True)\nimport os\nos.write(1, b"}{")\n'
    site = with_plugin(tmp_path, "noisy", noise + textwrap.dedent(GOOD))
    done = tfopt("plugins", cwd=tmp_path, site=site)
    assert done.code == 0, done.err
    assert "Does nothing much." in done.out
    assert "no JSON" not in done.out


@pytest.mark.promise(24, injected="two distributions that register one name")
def test_two_distributions_of_one_name_are_both_named(tmp_path):
    site = tmp_path / "site"
    make_distribution(site, "first-dist", {"twin": "first_module:Good"}, first_module=GOOD)
    make_distribution(site, "second-dist", {"twin": "second_module:Good"}, second_module=GOOD)
    project = tiny_project(tmp_path / "project", plugin="twin")
    done = tfopt("apply", "recipe.toml", cwd=project, site=site)
    assert done.code == 2
    [line] = done.err.splitlines()
    assert '"first-dist" 1.0' in line
    assert '"second-dist" 1.0' in line
    listed = " ".join(tfopt("plugins", cwd=project, site=site).out.split())
    assert "two distributions register it" in listed
    assert not list(site.glob("*_was_imported"))


SCRIPT = """
import keras
import numpy as np

x = np.arange(80, dtype="float32").reshape(40, 2) / 80
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], epochs=2, verbose=0)
"""


@pytest.mark.promise(23, injected="a plugin that writes a file when it is imported")
@pytest.mark.parametrize("command", ["apply", "train", "plan", "launch", "export"])
def test_an_installed_plugin_that_no_recipe_names_is_never_imported(command, tmp_path):
    site = with_plugin(tmp_path, "other")
    # the recipe's own mistake ends the command after every plugin that it names was imported
    project = tiny_project(tmp_path / "project")
    done = tfopt(command, "recipe.toml", "--set", "plugins.prefetch.size=1", cwd=project, site=site)
    assert done.code == 2
    assert "unknown setting" in done.err
    assert not (site / "other_module_was_imported").exists()


@pytest.mark.promise(23, injected="the same, with `apply train.py`, `plugins` and `schema`")
@pytest.mark.parametrize(
    "command",
    [
        ["plugins"],
        ["schema"],
        pytest.param(
            ["apply", "train.py", "--pairs", "4"],
            marks=[pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.thorough],
        ),
    ],
    ids=lambda command: command[0],
)
def test_what_reads_all_plugins_imports_each_in_a_process_of_its_own_first(command, tmp_path):
    site = with_plugin(tmp_path, "other")
    project = tiny_project(tmp_path / "project")
    (project / "train.py").write_text(SCRIPT)
    # a new process: what a fork was started with is not its own
    if command[0] == "apply":  # what follows is not about how they start
        done = tfopt(*command, cwd=project, site=site)
    else:
        done = tfopt_anew(*command, cwd=project, env=environment(PYTHONPATH=site))
    assert done.code == 0, done.err
    first = (site / "other_module_was_imported").read_text().splitlines()[0]
    assert "tfopt_core.hooks.installed.inspection" in first


@pytest.mark.thorough
def test_a_plugin_that_declares_nothing_needs_no_target_and_that_is_shown(tmp_path):
    site = with_plugin(tmp_path, "silent", GOOD.replace('equivalence = "exact"', ""))
    project = tiny_project(tmp_path / "project", plugin="silent")
    shown = tfopt("plugins", "show", "silent", cwd=project, site=site)
    assert "unknown: a replay shows whether it is the same training" in shown.out
    # a mistake of another kind ends the command after everything was checked
    done = tfopt("apply", "recipe.toml", "--set", "measure.pairs=1", cwd=project, site=site)
    assert done.code == 2
    assert "measure.pairs" in done.err
    assert "target" not in done.err
