"""Pages that are rendered, listed or run, the repository and its Makefile: what they say is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.pages import PAGES, ROOT, page_id
from support.tools import load_file, load_tool

import tfopt_core
from tfopt_core.training.runtime import RECORDED


def test_pages_are_what_the_tool_renders() -> None:
    rendered = load_tool("render_plugin_docs").render_all()
    folder = ROOT / "docs" / "plugins"
    mend = "run: .venv/bin/python tools/render_plugin_docs.py"
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(rendered), mend
    for name, text in rendered.items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name} is stale; {mend}"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("render_reliability")


@pytest.mark.thorough
def test_the_page_is_what_the_tool_renders_and_every_promise_is_held(tool: ModuleType) -> None:
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
def conf() -> ModuleType:
    """Sphinx's settings, which hold the contents of the site."""
    return load_file(ROOT / "docs" / "conf.py")


def listed_from(conf: ModuleType, page: str) -> list[str]:
    """Return the pages below one, through as many index pages as there are."""
    if page not in conf.index_pages():
        return []
    found = [name for names in conf.contents(page).values() for name in names]
    return found + [deeper for name in found for deeper in listed_from(conf, name)]


def test_every_page_is_listed_once(conf: ModuleType) -> None:
    listed = Counter(listed_from(conf, conf.root_doc))
    pages = {page_id(page).removesuffix(".md") for page in PAGES}
    assert listed == Counter(pages - {conf.root_doc, conf.INDEX})


def test_an_index_page_gets_its_contents_and_any_other_page_none(conf: ModuleType) -> None:
    source = ["# tfopt\n"]
    conf.add_contents(None, conf.root_doc, source)
    assert "```{toctree}\n:hidden:\n:caption: Guide\n\n/docs/tutorial\n/docs/guide/" in source[0]
    assert "\n/CHANGELOG\n```\n" in source[0]
    source = ["# cache\n"]
    conf.add_contents(None, "docs/plugins/cache", source)
    assert source == ["# cache\n"]


VERSIONS = load_tool("try_versions")
LOWEST = VERSIONS.lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_page_has_a_row_for_the_lowest_versions_that_pyproject_allows() -> None:
    page = VERSIONS.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert any(
        tensorflow.startswith(f"{LOWEST['tensorflow']}.")
        and keras.startswith(f"{LOWEST['keras']}.")
        for tensorflow, keras in rows
    )


def test_every_requirement_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = (project["dependencies"], extras["report"], extras["tune"])
    assert len(LOWEST) == sum(map(len, required))


OUTPUT = load_tool("render_output")
PAGE = """\
<!-- file: numbers.txt -->
```python
1
```

```bash
cat nothing.txt   # status 1
cat numbers.txt
```

```text
stale
```
"""


def test_files_are_written_commands_run_and_outputs_replaced(tmp_path: Path) -> None:
    page = OUTPUT.rendered(PAGE, tmp_path)
    assert page == PAGE.replace("stale", "1")
    assert (tmp_path / "numbers.txt").read_text() == "1\n"


def test_another_status_than_the_page_says_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OUTPUT.PageError, match="status 1"):
        OUTPUT.rendered(PAGE.replace("# status 1", ""), tmp_path)


@pytest.mark.promise(33, injected="the allow-list of the documentation and that of the code")
def test_the_page_names_exactly_the_variables_that_are_recorded() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    recorded = text.partition("## What is recorded")[2].partition("A test holds this list")[0]
    assert tuple(re.findall(r"`([A-Z_0-9]+)`", recorded)) == RECORDED


def test_how_to_report_leads_to_the_page() -> None:
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


TOP_LEVEL = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
    "README.md", "SECURITY.md", "benchmarks", "changelog.d", "docs", "examples", "plugins",
    "pyproject.toml", "recipes", "skills", "tests", "tfopt_core", "tools", "workloads",
}  # fmt: skip
BUNDLED_DATA = "workloads/tfopt_workloads/data/"
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files that git tracks and that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_nothing_is_tracked_in_the_root_but_what_belongs_there(tracked: list[str]) -> None:
    assert {name.partition("/")[0] for name in tracked} <= TOP_LEVEL


def test_no_tracked_file_is_large_but_the_bundled_data(tracked: list[str]) -> None:
    large = {name for name in tracked if (ROOT / name).stat().st_size > MOST_BYTES}
    assert {name for name in large if not name.startswith(BUNDLED_DATA)} == set()


def test_every_target_of_make_is_phony_and_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE))
    [phony] = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    helped = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert targets == set(phony.split())
    assert set(re.findall(r"^make (\S+)", helped.stdout, re.MULTILINE)) == targets


def test_workflows_run_what_make_does() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    allowed = {".ci/run", *(f"make {target}" for target in targets)}
    workflows = [path.read_text() for path in ROOT.glob(".github/workflows/*.yml")]
    run = re.findall(r"^ +- run: (.*)$", "".join(workflows), re.MULTILINE)
    assert len(run) == len(workflows) == 3
    assert set(run) <= allowed


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    place = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{tfopt_core.__version__}"' in place.read_text(encoding="utf-8")


DEVELOPMENT = {"test", "lint", "notebook"}


@pytest.fixture
def project() -> dict[str, Any]:
    """The table of the project in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]  # type: ignore[no-any-return]


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
