"""The place where tfopt runs: pipes, read-only folders, locales, one CPU, another TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import attrs
import pytest
from support.in_process import tfopt_here
from support.own_mounts import mount_read_only, with_own_mounts
from support.real_process import (
    TFOPT,
    TINY,
    Done,
    environment,
    make_project,
    run,
    tfopt_anew,
    tiny_project,
)

from tfopt_core.app.command_request import make_request
from tfopt_core.app.tensorflow_packages import is_newer, is_older, version_findings

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


def piped_into(text: str, *words: str, cwd) -> Done:
    """Run tfopt with a recipe on standard input, a pipe."""
    done = subprocess.run(
        [TFOPT, *words], cwd=cwd, env=environment(), input=text, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


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
    done = piped_into(f"{text}\nbufer_size = 2\n", "apply", "/dev/stdin", cwd=project)
    assert done.code == 2
    assert done.err.startswith("error: /dev/stdin:5: plugins[0].bufer_size: unknown setting")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(44, injected="a recipe on standard input, trained")
def test_a_recipe_from_a_pipe_trains(piped):
    project, text = piped
    done = piped_into(text, "train", "/dev/stdin", cwd=project)
    assert done.code == 0, done.err
    assert "trained 2 epochs" in done.out


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
    return [
        attrs.astuple(run([TFOPT, *words], cwd=project, env=env))
        for words in (["train", "recipe.toml"], ["diagnose", "recipe.toml"])
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


@pytest.mark.promise(46, injected="a locale that knows ASCII alone, names that it lacks")
@pytest.mark.parametrize(
    "words",
    [
        ["plugins", "show", "cache"],
        pytest.param(["doctor"], marks=pytest.mark.thorough),
        pytest.param(["recipes"], marks=pytest.mark.thorough),
        pytest.param(["schema"], marks=pytest.mark.thorough),
        pytest.param(["--help"], marks=pytest.mark.thorough),
        pytest.param(["apply", f"{SIGNS}.toml"], marks=pytest.mark.thorough),
        pytest.param(
            ["apply", f"{SIGNS}.toml", "--set", "workload.epochs=2", "--markdown", "-",
             "--html", "out.html"],
            marks=[pytest.mark.thorough, pytest.mark.slow],
        ),
        pytest.param(
            ["diagnose", f"{SIGNS}.toml"], marks=[pytest.mark.thorough, pytest.mark.slow]
        ),
        pytest.param(["plan", f"{SIGNS}.toml"], marks=[pytest.mark.thorough, pytest.mark.slow]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_work_in_a_locale_that_is_not_utf_8(words, tmp_path):
    project = make_project(tmp_path, BASE, tiny=TINY.format(says="pass"))
    text = (project / "recipe.toml").read_text("utf-8").replace('name = "of the base"', "")
    (project / f"{SIGNS}.toml").write_text(f'{text}\n[[plugins]]\nuse = "prefetch"\n', "utf-8")
    wrong = words == ["apply", f"{SIGNS}.toml"]
    if wrong:
        words = [*words, "--set", "plugins.prefetch.size=1"]  # an error in a file of that name
    done = in_ascii(*words, cwd=project)
    assert done.code == (2 if wrong else 0), done.err
    assert "Traceback" not in done.err
    assert done.out or wrong


@pytest.mark.promise(46, injected="a recipe that names a file by letters that the locale lacks")
def test_a_file_that_the_locale_cannot_name_is_said_not_to_be_there(tmp_path):
    project = make_project(tmp_path, BASE.replace("tiny.py", f"{SIGNS}.py"))
    done = in_ascii("apply", "recipe.toml", cwd=project)
    assert done.code == 2
    assert "error: recipe.toml:3: workload.factory: there is no file" in done.err
    assert "Traceback" not in done.err


def in_ascii(*words: str, cwd) -> Done:
    """Run tfopt in that locale; all that it prints is ASCII."""
    done = subprocess.run(
        [os.fspath(TFOPT), *words], cwd=cwd, env=environment(**ASCII), timeout=200,
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii"))


# One CPU


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(47, injected="an affinity of one CPU, inherited by all processes")
@pytest.mark.parametrize(
    "words",
    [["apply", "recipe.toml", "--json", "out.json"], ["diagnose", "recipe.toml"], ["doctor"],
     ["plan", "recipe.toml", "--set", "plugins.prefetch.enabled=true"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_commands_work_on_one_cpu(words, tmp_path):
    project = tiny_project(tmp_path)
    one = min(os.sched_getaffinity(0))
    done = run(
        [sys.executable, "-c",
         f"import os, sys; os.sched_setaffinity(0, [{one}]); os.execv(sys.argv[1], sys.argv[1:])",
         TFOPT, *words],
        cwd=project,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "Traceback" not in done.err


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
    for version, outside in (("2.20.9", (True, False)), ("2.21.0", (False, False)),
                             ("2.22.0", (False, True)), ("3.0", (False, True)),
                             ("2.21.0rc1", (False, False))):  # fmt: skip
        assert (is_older(version, required), is_newer(version, required)) == outside, version
