"""Plugins of other distributions that do not import, share a name, or are not asked for."""

import textwrap

import pytest
from support.cases import mostly_thorough
from support.forked_command import HASTY
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
    "no attrs": ("class Good: pass", "does not derive from Plugin"),
    "leaves": ("import os; os._exit(3)", "ended with status 3 while it was imported"),
    "aborts": ("import os; os.abort()", "killed by SIGABRT while it was imported"),
    "closes its streams": (
        "import os\nfor number in (0, 1, 2): os.close(number)\nraise RuntimeError('no stream')",
        "RuntimeError: no stream",
    ),
    "has terminal codes": ("raise RuntimeError('a\\n\\x1b[31mred')", "a \\x1b[31mred"),
}


@pytest.mark.promise(21, injected="modules that raise, exit, abort or are no plugin")
@pytest.mark.parametrize("broken", mostly_thorough(BROKEN, kept=["leaves"]))
def test_a_named_plugin_that_cannot_be_loaded_is_one_line_with_its_distribution(broken, tmp_path):
    code, said = BROKEN[broken]
    site = make_distribution(
        tmp_path / "site", "ill-dist", {"ill": "ill_module:Good"}, "2.5", ill_module=code
    )
    project = tiny_project(tmp_path / "project", plugin="ill")
    done = tfopt("apply", "recipe.toml", cwd=project, site=site)
    assert done.code == 2
    [line] = done.err.splitlines()
    assert line.startswith("error: recipe.toml:7: plugins[0].use: ")
    assert '"ill"' in line
    assert said in line
    if "Error" in said or "Exit" in said:
        assert "ill-dist 2.5" in line


@pytest.mark.thorough
@pytest.mark.promise(21, injected="the same, beside whole plugins")
@pytest.mark.parametrize("kind", ["raises", "aborts"])
def test_plugins_lists_a_broken_one_with_its_error_and_the_others_as_ever(kind, tmp_path):
    code, said = BROKEN[kind]
    site = make_distribution(
        tmp_path, "ill-dist", {"ill": "ill_module:Good"}, "2.5", ill_module=code
    )
    done = tfopt("plugins", cwd=tmp_path, site=site)
    assert done.code == 0, done.err
    flowing = " ".join(done.out.split())
    assert said in flowing
    assert "ill-dist 2.5" in flowing
    for name in ("cache", "xla", "threads"):
        assert any(line.split()[:1] == [name] for line in done.out.splitlines())
    assert "Traceback" not in done.out + done.err


def test_what_a_plugin_prints_while_it_is_imported_disturbs_nothing(tmp_path):
    noise = 'print(\'{"begin": "cache"}\', "no JSON", flush=True)\nimport os\nos.write(1, b"}{")\n'
    site = make_distribution(
        tmp_path, "noisy", {"noisy": "noisy_module:Good"}, noisy_module="x = 1"
    )
    (site / "noisy_module.py").write_text(noise + textwrap.dedent(GOOD))
    done = tfopt("plugins", cwd=tmp_path, site=site)
    assert done.code == 0, done.err
    assert "Does nothing much." in done.out
    assert "no JSON" not in done.out


@pytest.mark.promise(22, injected="os.abort() at the top of the module")
def test_a_plugin_that_aborts_cannot_be_shown_but_others_can(tmp_path):
    site = make_distribution(
        tmp_path / "site", "ill", {"ill": "ill_module:Good"}, ill_module="import os; os.abort()"
    )
    project = tiny_project(tmp_path / "project")
    shown = tfopt("plugins", "show", "ill", cwd=project, site=site)
    assert shown.code == 2
    assert "killed by SIGABRT while it was imported" in shown.err
    assert tfopt("plugins", "show", "cache", cwd=project, site=site).code == 0


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
    site = make_distribution(
        tmp_path / "site", "other", {"other": "other_module:Good"}, other_module=GOOD
    )
    # the recipe's own mistake ends the command after every plugin that it names was imported
    project = tiny_project(tmp_path / "project")
    done = tfopt(
        command, "recipe.toml", "--set", "plugins.prefetch.size=1",
        cwd=project, site=site,
    )  # fmt: skip
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
    site = make_distribution(
        tmp_path / "site", "other", {"other": "other_module:Good"}, other_module=GOOD
    )
    project = tiny_project(tmp_path / "project")
    (project / "train.py").write_text(SCRIPT)
    # a new process: what a fork was started with is not its own
    if command[0] == "apply":  # what follows is not about how they start
        done = tfopt(*command, cwd=project, site=site, imported=True, before=HASTY)
    else:
        done = tfopt_anew(*command, cwd=project, env=environment(PYTHONPATH=site))
    assert done.code == 0, done.err
    first = (site / "other_module_was_imported").read_text().splitlines()[0]
    assert "tfopt_core.hooks.installed.inspection" in first


@pytest.mark.thorough
def test_a_plugin_that_declares_nothing_needs_no_target_and_that_is_shown(tmp_path):
    silent = GOOD.replace('equivalence = "exact"', "")
    site = make_distribution(
        tmp_path / "site", "silent", {"silent": "silent_module:Good"}, silent_module=silent
    )
    project = tiny_project(tmp_path / "project", plugin="silent")
    shown = tfopt("plugins", "show", "silent", cwd=project, site=site)
    assert "not declared: a replay shows whether it is the same training" in shown.out
    # a mistake of another kind ends the command after everything was checked
    done = tfopt("apply", "recipe.toml", "--set", "measure.pairs=1", cwd=project, site=site)
    assert done.code == 2
    assert "measure.pairs" in done.err
    assert "target" not in done.err
