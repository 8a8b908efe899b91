"""Pages that are rendered, listed or run, the repository and its Makefile: what they say is so."""

import re
import tomllib
from collections import Counter

import pytest
from support.pages import PAGES, ROOT, page_id, text_of
from support.tools import load_file, load_tool

from tfopt_core.trials.request import RECORDED


def test_pages_are_what_the_tool_renders():
    rendered = load_tool("render_plugin_docs").render_all()
    folder = ROOT / "docs" / "plugins"
    mend = "run: .venv/bin/python tools/render_plugin_docs.py"
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(rendered), mend
    for name, text in rendered.items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name} is stale; {mend}"


@pytest.fixture(scope="module")
def tool():
    return load_tool("render_reliability")


@pytest.mark.thorough
def test_the_page_is_what_the_tool_renders_and_every_promise_is_held(tool):
    rendered = tool.render(tool.held_promises(), tool.load_promises())
    mend = "run: .venv/bin/python tools/render_reliability.py"
    assert tool.PAGE.read_text(encoding="utf-8") == rendered, mend


def test_a_promise_without_a_test_and_a_mark_without_a_promise_are_refused(tool, tmp_path):
    marked = '@pytest.mark.thorough\n@pytest.mark.promise(99, injected="x")\ndef test_a(): pass\n'
    (tmp_path / "test_it.py").write_text(marked, encoding="utf-8")
    held = tool.held_promises(tmp_path)
    assert [(test.number, test.injected, test.thorough) for test in held] == [(99, "x", True)]
    with pytest.raises(SystemExit, match=r"without a test: \[1, 2.*without a promise: \[99\]"):
        tool.render(held, tool.load_promises())


@pytest.fixture(scope="module")
def conf():
    """Sphinx's settings, which hold the contents of the site."""
    return load_file(ROOT / "docs" / "conf.py")


def listed_from(conf, page):
    """Return the pages below one, through as many index pages as there are."""
    if page not in conf.index_pages():
        return []
    found = [name for names in conf.contents(page).values() for name in names]
    return found + [deeper for name in found for deeper in listed_from(conf, name)]


def test_every_page_is_listed_once(conf):
    listed = Counter(listed_from(conf, conf.root_doc))
    pages = {page_id(page).removesuffix(".md") for page in PAGES}
    assert listed == Counter(pages - {conf.root_doc, conf.INDEX})


VERSIONS = load_tool("try_versions")
LOWEST = VERSIONS.lower_bounds(text_of("pyproject.toml"))


def test_the_page_has_a_row_for_the_lowest_versions_that_pyproject_allows():
    page = VERSIONS.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert any(
        tensorflow.startswith(f"{LOWEST['tensorflow']}.")
        and keras.startswith(f"{LOWEST['keras']}.")
        for tensorflow, keras in rows
    )


@pytest.fixture
def project():
    """The table of the project in pyproject.toml."""
    return tomllib.loads(text_of("pyproject.toml"))["project"]


def test_every_requirement_has_a_lower_bound(project):
    extras = project["optional-dependencies"]
    required = (project["dependencies"], extras["report"], extras["tune"])
    assert len(LOWEST) == sum(map(len, required))


@pytest.mark.promise(33, injected="the allow-list of the documentation and that of the code")
def test_the_page_names_exactly_the_variables_that_are_recorded():
    section = text_of("docs/security.md").partition("## What is recorded")[2]
    recorded = section.partition("A test holds this list")[0]
    assert tuple(re.findall(r"`([A-Z_0-9]+)`", recorded)) == RECORDED


DEVELOPMENT = {"test", "lint", "notebook"}


def test_the_extras_dev_and_all_install_those_for_developers_and_those_for_users(project):
    extras = project["optional-dependencies"]
    installed = {}
    for name in ("dev", "all"):
        [listed] = extras.pop(name)
        installed[name] = set(listed.removeprefix("tfopt[").removesuffix("]").split(","))
    # a report's page and the search of settings are tested too
    assert installed == {"dev": DEVELOPMENT | {"report", "tune"}, "all": set(extras) - DEVELOPMENT}


def test_the_extra_for_gpus_installs_the_tensorflow_that_tfopt_requires(project):
    [tensorflow] = [line for line in project["dependencies"] if line.startswith("tensorflow")]
    extra = tensorflow.replace("tensorflow", "tensorflow[and-cuda]")
    listed = project["optional-dependencies"]["and-cuda"]
    # TensorFlow's own floor for cuDNN is lower than what its XLA needs
    assert listed == [extra, "nvidia-cudnn-cu12>=9.24"]
