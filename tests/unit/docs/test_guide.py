"""What the documents say of names, keys, commands and links is so."""

import inspect
import re
import shlex
import tomllib

import attrs
import click
import pytest
from support.pages import PAGES, ROOT, blocks, first_cells, guide, page_id, text_of

from tfopt_core import Workload, data, plugins, testing
from tfopt_core.commands.main import cli
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.plugin_class import HEADINGS, Traits
from tfopt_core.hooks.specs import ALL_HOOKS, HookSpecs
from tfopt_core.plugins import PrecisionPolicy, Probe, RunContext, RuntimeOptions, TrainingOptions
from tfopt_core.recipe.model import (
    MeasureSpec,
    QualitySpec,
    Recipe,
    TargetSpec,
    TuneSpec,
    WorkloadSpec,
)
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.table import keys_of


@pytest.mark.parametrize("hook", ALL_HOOKS)
def test_hook_is_documented_with_its_exact_arguments(hook):
    arguments = list(inspect.signature(getattr(HookSpecs, hook)).parameters)[1:]
    assert f"### `{hook}({', '.join(arguments)})`\n" in guide("plugins.md")


def test_hooks_are_documented_in_the_order_of_their_calls():
    documented = re.findall(r"^### `(\w+)\(", guide("plugins.md"), re.MULTILINE)
    assert documented == [name for name in vars(HookSpecs) if name in ALL_HOOKS]


def test_the_fields_of_the_stages_in_the_table_exist():
    text = guide("plugins.md")
    table = text[text.index("| stage | fields |") : text.index("Maps, batches and interleaves")]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) > 10
    for names, fields in rows:
        classes = [getattr(data, name) for name in re.findall(r"`(\w+)`", names)]
        known = {field for one in classes for field in attrs.fields_dict(one)}
        assert set(re.findall(r"`([a-z_]+)`", fields)) - {"apply"} <= known


def fields_of(*records):
    return {field.name for record in records for field in attrs.fields(record)}


RECIPE_TABLES = (Recipe, WorkloadSpec, MeasureSpec, QualitySpec, TargetSpec, TuneSpec)
# By page: what stands in the first cells of its tables.
DOCUMENTED = {
    "plugins.md": {
        *fields_of(RuntimeOptions, PrecisionPolicy, TrainingOptions, Traits),
        *fields_of(RunContext) - {"states"}, "state_of",
        *(name for name in vars(Probe) if not name.startswith("_")),
        *(name for name, value in vars(testing).items()
          if inspect.isfunction(value) and value.__module__ == testing.__name__),
    },
    "workloads.md": fields_of(Workload),
    # some tables have headings
    "recipes.md": {key for table in RECIPE_TABLES for key in keys_of(table)}
    - {"workload", "measure", "tune"},
}  # fmt: skip


@pytest.mark.parametrize("page", DOCUMENTED)
def test_every_name_that_users_write_is_documented(page):
    assert DOCUMENTED[page] - first_cells(guide(page)) == set()


def test_the_headings_of_a_card_are_documented():
    assert [one for one in HEADINGS if f"`{one}:`" not in guide("plugins.md")] == []


@pytest.mark.parametrize("module", [plugins, data])
def test_all_that_plugins_import_is_documented(module):
    stages = {name for name, value in vars(data).items() if is_stage(value)}
    named = set(re.findall(r"\w+", guide("plugins.md")))
    assert set(module.__all__) - stages <= named


def is_stage(value):
    return inspect.isclass(value) and issubclass(value, data.Stage | data.Held)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.is_file(), target  # the site has no page for a folder
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert anchor in anchors, target


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_exist_with_their_options(page):
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^tfopt [^\n#]*", "".join(blocks(text, "bash")), re.MULTILINE)
    lines += re.findall(r"(?<!`)`(tfopt [a-z][^`\n]*)`", text)
    lines += re.findall(r"^ +- run: (tfopt .*)$", text, re.MULTILINE)  # of a workflow
    for line in lines:
        words = shlex.split(line.partition(" -- ")[0])[1:]  # what follows is a script's own
        command = cli
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert command is not cli, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def commands(command=cli, name="tfopt"):
    """Every command that can be run, by its words."""
    found = {} if command is cli else {name: command}
    for word, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, f"{name} {word}")
    return found


@pytest.mark.parametrize("name", commands())
def test_every_command_is_documented_with_its_options(name):
    of_command, of_several = guide("commands.md").split("| option |")
    called = rf"`{name}( [A-Z][^`]*| train.py)?`"
    rows = [row for row in of_command.splitlines() if re.search(called, row.partition(" | ")[0])]
    assert rows
    documented = re.findall(r"`(--[a-z-]+)", "".join([*rows, of_several]))
    options = {option for parameter in commands()[name].params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= set(documented)
    assert f"`{name.removeprefix('tfopt ').partition(' ')[0]}`" in text_of("README.md")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_toml_is_toml(page):
    for block in blocks(page.read_text(encoding="utf-8"), "toml"):
        tomllib.loads(block)


def test_readme_explains_the_recipe_that_the_demo_runs(tmp_path):
    [block] = blocks(text_of("README.md"), "toml")
    (tmp_path / "readme.toml").write_text(block, encoding="utf-8")
    shown = read_recipe(tmp_path / "readme.toml", []).require()
    assert shown.sha256() == read_recipe("quickstart", []).require().sha256()


def test_decisions_are_all_in_their_index():
    index = text_of("docs/decisions/README.md")
    for path in ROOT.glob("docs/decisions/0*.md"):
        title = path.read_text(encoding="utf-8").partition("\n")[0].partition(". ")[2]
        assert f"({path.name}): {title}\n" in index


def test_changelog_names_every_plugin_that_ships():
    text = text_of("CHANGELOG.md")
    ours = {
        name
        for name, found in registrations().items()
        if any(registration.distribution == "tfopt" for registration in found)
    }
    assert {name for name in ours if f"`{name}`" not in text} == set()
