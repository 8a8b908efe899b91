"""What happens beside a measurement: others that measure, edits, clocks that jump, nan."""

import json
import time
from contextlib import ExitStack

import pytest
from support.in_process import tfopt_here, train_here
from support.real_process import stored_runs, tfopt, tiny_project
from support.small_workloads import line

from tfopt_core.errors import TfoptError
from tfopt_core.measurement.fingerprint import CodeAtStart
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.store.lock import LOCK_FILE, measuring_alone

# Several in one project


@pytest.mark.promise(48, injected="the lock of a project, held by another process")
def test_with_no_wait_it_ends_with_2_and_names_the_process_that_measures(tmp_path):
    project = tiny_project(tmp_path)
    with measuring_alone(project / ".tfopt", 'process 7 ("tfopt apply x.toml")', print):
        done = tfopt_here("apply", "recipe.toml", "--no-wait", cwd=project)
        bad = tfopt_here("apply", "recipe.toml", "--no-wait", "--set", "a=1", cwd=project)
    assert (done.code, done.out) == (2, "")
    said = f'error: process 7 ("tfopt apply x.toml") is measuring in "{project}"; leave --no-wait '
    assert done.err == f"{said}out to wait for it\n"
    assert "measuring" not in bad.err  # bad input is said before anybody waits


def test_a_lock_of_a_dead_process_and_one_without_a_name_keep_nobody(tmp_path):
    (tmp_path / LOCK_FILE).write_text("process 1 (a foreign file)")
    waited = []
    with measuring_alone(tmp_path, "process 7", waited.append):
        assert (tmp_path / LOCK_FILE).read_text() == "process 7"
    with measuring_alone(tmp_path, "process 8", waited.append):
        pass
    assert waited == []
    assert (tmp_path / LOCK_FILE).read_text() == ""


@pytest.mark.promise(48, injected="a second one that begins while the first measures")
def test_whoever_comes_second_waits_for_the_first_and_names_it(tmp_path):
    first, waited = ExitStack(), []

    def end_the_first(holder):
        waited.append(holder)
        first.close()

    first.enter_context(measuring_alone(tmp_path, "process 7", print))
    with measuring_alone(tmp_path, "process 8", end_the_first):
        assert waited == ["process 7"]
        assert (tmp_path / LOCK_FILE).read_text() == "process 8"


# Edits

# The third run finds a factory that somebody has edited after it began.
EDITED = """
        import pathlib
        with open("calls", "a") as calls:
            calls.write("x")
        if len(pathlib.Path("calls").read_text()) == 7:
            with open(__file__, "a") as code:
                code.write("# edited")
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(43, injected="a byte more in the factory's file while the third run trains")
def test_an_edit_while_it_is_measured_ends_the_measurement_and_keeps_the_runs_before(tmp_path):
    project = tiny_project(tmp_path, says=EDITED.strip())
    code = project / "tiny.py"
    before = code.read_text()
    apply = ("apply", "recipe.toml", "--json", "out.json")
    done = tfopt(*apply, cwd=project)
    assert done.code == 3
    [line] = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f'error: "{code}" changed while it was measured, so its runs would not')
    assert "2 runs from before are kept" in line
    assert done.out == ""
    assert [run["status"] for run in stored_runs(project)] == ["ok", "ok"]
    refused = tfopt("apply", "recipe.toml", "--resume", cwd=project)
    assert refused.code == 2
    assert f'"{code}" changed' in refused.err
    code.write_text(before)
    resumed = tfopt(*apply, "--resume", cwd=project)
    assert resumed.code == 0, resumed.err
    assert json.loads((project / "out.json").read_text())["resumed"] == 1


@pytest.mark.promise(43, injected="a file saved unchanged, a new one, one edited, one removed")
def test_a_file_that_is_saved_unchanged_or_comes_anew_is_no_edit(tmp_path):
    project = tiny_project(tmp_path)
    recipe = read_recipe(project / "recipe.toml").require()
    code = CodeAtStart.of(recipe)
    (project / "tiny.py").touch()
    (project / "made_by_a_run.py").write_text("")
    code.check(0)
    (project / "tiny.py").write_text("")
    with pytest.raises(TfoptError, match="0 runs from before are kept"):
        code.check(0)
    (project / "tiny.py").unlink()
    with pytest.raises(TfoptError, match=r'tiny\.py" changed while it was measured'):
        code.check(1)


# The clock


@pytest.mark.tensorflow
@pytest.mark.promise(18, injected="time.time jumps by days, forwards and backwards, at each call")
def test_durations_are_those_of_a_clock_that_nobody_sets(tmp_path, monkeypatch):
    jumps = iter(range(10**9))
    day = 86_400
    monkeypatch.setattr(time, "time", lambda: 1e9 + (-1) ** (n := next(jumps)) * n * day)
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    _, outcome = train_here(line(40), folder=tmp_path)
    seconds = [block.seconds for block in outcome.blocks]
    assert len(seconds) > 0
    assert all(0 <= each < day for each in seconds)
