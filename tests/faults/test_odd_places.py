"""The place where tfopt runs: pipes, read-only folders, locales, one CPU, another TensorFlow."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest
from support.forked_command import own_server
from support.in_process import tfopt_here
from support.own_mounts import mount_read_only, with_own_mounts
from support.real_process import (
    TFOPT,
    TINY,
    Done,
    environment,
    make_project,
    tfopt,
    tfopt_anew,
    tiny_project,
)

from tfopt_core.commands.doctor import age_of, version_findings
from tfopt_core.commands.request import make_request

RECIPE = """
    extends = "base.toml"
    [[plugins]]
    use = "prefetch"
"""
BASE = """
    name = "of the base"
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = 16
"""


@pytest.fixture
def piped(tmp_path):
    """A project without a recipe of its own, and the text of one."""
    project = make_project(tmp_path, BASE, tiny=TINY.format(says="pass"))
    (project / "recipe.toml").rename(project / "base.toml")
    return project, "\n".join(line.strip() for line in RECIPE.splitlines())


@pytest.mark.promise(44, injected="a recipe on standard input, with a base and a factory beside it")
def test_a_recipe_from_a_pipe_starts_from_the_working_directory(piped, monkeypatch):
    project, text = piped
    monkeypatch.chdir(project)
    ours, theirs = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(theirs, text.encode()), os.close(theirs)))
    writer.start()
    request, results = make_request(f"/dev/fd/{ours}", [], compares=True)
    writer.join()
    os.close(ours)
    assert results == project / ".tfopt"
    assert (request.recipe.name, request.recipe.directory) == ("of the base", project)
    assert not os.path.exists("/dev/.tfopt")


@pytest.mark.promise(44, injected="a bad recipe on standard input")
def test_a_bad_recipe_from_a_pipe_has_its_line(piped):
    project, text = piped
    done = subprocess.run(
        [TFOPT, "apply", "/dev/stdin"], cwd=project, env=environment(), capture_output=True,
        text=True, input=f"{text}\nbufer_size = 2\n", check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: /dev/stdin:5: plugins[0].bufer_size: unknown setting")


# Folders that cannot be written


def in_read_only(project):
    mount_read_only(project)
    return [
        attrs.astuple(tfopt_here(*words, cwd=project))
        for words in (["apply", "recipe.toml"], ["train", "recipe.toml"], ["runs"], ["recipes"])
    ]


@pytest.mark.promise(45, injected="a project on a disk that is mounted read-only")
def test_a_project_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path):
    project = tiny_project(tmp_path, says='raise SystemExit("the workload was built")')
    apply, train, runs, recipes = with_own_mounts(in_read_only, project)
    for code, out, err in (apply, train):
        assert (code, out) == (2, "")
        assert err.startswith(f'error: results cannot be kept in "{project}/.tfopt": Read-only')
        assert len(err.splitlines()) == 1
    assert runs[0] == recipes[0] == 0


def train_with_read_only_home(home, project):
    mount_read_only(home)
    env = environment(HOME=home, XDG_CACHE_HOME=home / "cache")
    env.pop("KERAS_HOME", None)
    with own_server(env):
        return [
            attrs.astuple(tfopt(word, "recipe.toml", cwd=project, env=env))
            for word in ("train", "diagnose")
        ]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(45, injected="a home on a disk that is mounted read-only")
def test_a_home_that_cannot_be_written_is_not_needed(tmp_path):
    project, home = tiny_project(tmp_path / "project"), tmp_path / "home"
    home.mkdir()
    for code, _, err in with_own_mounts(train_with_read_only_home, home, project):
        assert code == 0, err
        assert "Traceback" not in err
    assert list(home.iterdir()) == []


# Locales

# As on a machine without any UTF-8, which Python would otherwise use on its own.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LANG": "C"}
SIGNS = "größe-é"


@pytest.mark.promise(46, injected="a locale that knows ASCII alone")
def test_a_command_works_in_a_locale_that_is_not_utf_8(tmp_path):
    done = in_ascii("plugins", "show", "cache", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert done.out


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(46, injected="a locale that knows ASCII alone, a file whose name it lacks")
def test_commands_work_in_a_locale_that_is_not_utf_8(tmp_path):
    project = make_project(tmp_path, BASE, tiny=TINY.format(says="pass"))
    text = (project / "recipe.toml").read_text("utf-8").replace('name = "of the base"', "")
    (project / f"{SIGNS}.toml").write_text(f'{text}\n[[plugins]]\nuse = "prefetch"\n', "utf-8")
    recipe = f"{SIGNS}.toml".encode().decode("ascii", "surrogateescape")  # as Python gets it there
    reports = ("--set", "workload.epochs=2", "--markdown", "-", "--html", "out.html")
    commands = [
        ["doctor"], ["recipes"], ["schema"], ["--help"], ["plan", recipe], ["diagnose", recipe],
        ["apply", recipe, "--set", "plugins.prefetch.size=1"], ["apply", recipe, *reports],
    ]  # fmt: skip
    env = environment(**ASCII)
    with own_server(env):
        ended = [tfopt(*words, cwd=project, env=env) for words in commands]
    for words, done in zip(commands, ended, strict=True):
        wrong = "plugins.prefetch.size=1" in words  # an error in a file of that name
        assert done.code == (2 if wrong else 0), (words, done.err)
        assert "Traceback" not in done.err, words
        assert (done.out + done.err).isascii(), words
        assert done.out or wrong, words
    assert (project / "out.html").exists()


@pytest.mark.promise(46, injected="a recipe that names a file by letters that the locale lacks")
def test_a_file_that_the_locale_cannot_name_is_said_not_to_be_there(tmp_path):
    project = make_project(tmp_path, BASE.replace("tiny.py", f"{SIGNS}.py"))
    done = in_ascii("apply", "recipe.toml", cwd=project)
    assert done.code == 2
    assert "error: recipe.toml:3: workload.factory: there is no file" in done.err
    assert "Traceback" not in done.err


def in_ascii(*words: str, cwd) -> Done:
    """Run tfopt in that locale; all that it prints is ASCII."""
    done = tfopt_anew(*words, cwd=cwd, env=environment(**ASCII))
    assert (done.out + done.err).isascii()
    return done


# One CPU


@contextmanager
def one_cpu() -> Iterator[None]:
    """Start commands on one CPU, whose processes inherit that."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(allowed)])
    try:
        with own_server(environment()):
            yield
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(47, injected="an affinity of one CPU, inherited by all processes")
def test_commands_work_on_one_cpu(tmp_path):
    cpus = "import os; print('CPUs:', len(os.sched_getaffinity(0)), flush=True)"
    project = tiny_project(tmp_path, says=cpus)
    commands = (
        ["doctor"], ["plan", "recipe.toml", "--set", "plugins.prefetch.enabled=true"],
        ["diagnose", "recipe.toml"], ["train", "recipe.toml"],
        ["apply", "recipe.toml", "--json", "out.json"],
    )  # fmt: skip
    with one_cpu():
        ended = {words[0]: tfopt(*words, cwd=project) for words in commands}
    for word, done in ended.items():
        assert done.code == 0, (word, done.err)
        assert "Traceback" not in done.err, word
    assert "CPUs: 1" in ended["train"].out


# TensorFlow outside of the range


def site_with(folder, version):
    info = folder / f"tensorflow-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n")
    (info / "top_level.txt").write_text("tensorflow\n")
    (folder / "tensorflow.py").write_text('raise SystemExit("TensorFlow was imported")')
    return folder


@pytest.mark.promise(42, injected="a distribution of TensorFlow 2.15 before the real one")
def test_an_older_tensorflow_is_refused_before_it_is_imported(tmp_path):
    site, project = site_with(tmp_path / "site", "2.15.1"), tiny_project(tmp_path / "project")
    done = tfopt_anew("apply", "recipe.toml", cwd=project, env=environment(PYTHONPATH=site))
    assert done.code == 2
    assert done.err.startswith("error: TensorFlow 2.15.1 is older than this tfopt needs; run: pip")
    assert "tensorflow" in done.err.partition("pip install")[2]
    assert len(done.err.splitlines()) == 1
    assert not (project / ".tfopt").exists()


@pytest.mark.promise(42, injected="distributions of TensorFlow 2.15 and 2.99")
@pytest.mark.parametrize(("version", "ok", "said"), [("2.15.1", False, "older"),
                                                     ("2.99.0.dev1", None, "newer")])  # fmt: skip
def test_doctor_names_a_tensorflow_outside_of_the_range(tmp_path, monkeypatch, version, ok, said):
    monkeypatch.syspath_prepend(site_with(tmp_path, version))
    [finding] = version_findings()
    assert finding.ok is ok
    assert finding.detail == f"{version}, {said} than this tfopt was made for"
    assert finding.mend.startswith("pip install 'tensorflow")


def test_a_range_is_that_of_the_requirement():
    required = "tensorflow<2.22,>=2.21"
    for version, age in (("2.20.9", "older"), ("2.21.0", ""), ("2.22.0", "newer"),
                         ("3.0", "newer"), ("2.21.0rc1", "")):  # fmt: skip
        assert age_of(version, required) == age, version
