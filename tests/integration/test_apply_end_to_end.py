"""`tfopt apply` on real data in real processes: what is printed, written and kept."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.real_process import environment, make_project, tfopt, tiny_project

pytestmark = pytest.mark.slow

SECRET = "hunter2-is-no-password"
# Real flights; of the validation data a few, a map that does little and a network of one layer:
# each of the processes traces them anew, which takes longer than the training.
LOUD = """
    import attrs
    from tfopt_core.data import Take
    from tfopt_workloads import flights

    def build_model():
        import keras

        inputs = keras.Input((10,), name="numbers"), keras.Input((3,), name="codes")
        hidden = keras.layers.Dense(128, activation="relu")(inputs[0])
        return keras.Model({one.name: one for one in inputs}, keras.layers.Dense(1)(hidden))

    def build(**options):
        print("THE WORKLOAD SPEAKS", flush=True)
        workload = flights.build(**options)
        few = workload.validation.insert(1, Take(count=640))
        _, auc = workload.metrics
        return attrs.evolve(
            workload, train=workload.train.map(lambda x, y: (x, y)), validation=few,
            build_model=build_model, optimizer="sgd", metrics=[auc],
        )
"""
RECIPE = """
    name = "shared"
    [workload]
    factory = "loud.py:build"
    epochs = 2
    batch_size = 64
    [workload.options]
    examples = 640
    prepare = "ahead"
    [[plugins]]
    use = "cache"
    [[plugins]]
    use = "prefetch"
    [[plugins]]
    use = "steps-per-execution"
    steps = 4
    [measure]
    pairs = 4
    attribution = "off"
"""
STACK = ("cache", "prefetch", "steps-per-execution")


@pytest.fixture(scope="module")
def applied(tmp_path_factory):
    """One finished `tfopt apply`: its project, how it ended, and what `--json` wrote."""
    project = make_project(tmp_path_factory.mktemp("applied"), RECIPE, loud=LOUD)
    secretive = environment(FOO_TOKEN=SECRET)
    done = tfopt("apply", "recipe.toml", "--json", "out.json", cwd=project, env=secretive)
    assert (project / "out.json").exists(), done.err
    data = json.loads((project / "out.json").read_text())
    return SimpleNamespace(project=project, code=done.code, out=done.out, err=done.err, data=data)


def test_a_finished_measurement_ends_with_0_whatever_the_verdict(applied):
    assert applied.code == 0
    assert [run["status"] for run in applied.data["runs"]] == ["ok"] * 8


def test_the_fields_are_filled_with_what_was_measured(applied):
    data = applied.data
    assert data["schema_version"] == 4
    assert data["recipe"] == "shared"
    assert len(data["recipe_sha256"]) == 64
    assert data["machine"]["cpu_count"] >= 1
    assert {"python", "tensorflow", "keras", "numpy"} <= set(data["environment"])
    assert data["comparison"]["kind"] == "end-to-end"
    assert data["comparison"]["pairs"] == 4
    assert data["comparison"]["quality"]["metric"] == "val_auc"
    for run in data["runs"]:
        [fit] = run["fits"]
        assert run["wall_seconds"] > 0
        assert run["peak_rss_bytes"] > 50 * 2**20
        assert sum(block["steps"] for block in fit["blocks"]) == fit["steps"] == 20
        assert fit["epochs"] == 2
        assert fit["trainable_parameters"] > 1000
        assert fit["one_time_seconds"] > 0
        assert all(len(values) == 2 for values in fit["history"].values())
        assert fit["metrics"] == {name: values[-1] for name, values in fit["history"].items()}


def test_every_plugin_of_the_stack_confirms_its_effect_and_the_baseline_has_none(applied):
    for run in applied.data["runs"]:
        if run["variant"] == "baseline":
            assert run["effects"] == {}
        else:
            assert tuple(run["effects"]) == STACK
            assert all(effect["applied"] for effect in run["effects"].values())
            assert run["effects"]["steps-per-execution"]["detail"] == "4 steps a call"


def test_settings_of_auto_are_resolved_in_the_json(applied):
    assert tuple(applied.data["resolved"]) == STACK
    assert applied.data["resolved"]["cache"]["storage"] in ("memory", "disk")
    assert applied.data["resolved"]["steps-per-execution"] == {"steps": 4}


def test_the_output_of_every_run_is_in_its_file_and_not_in_the_summary(applied):
    for run in applied.data["runs"]:
        assert "THE WORKLOAD SPEAKS" in Path(run["output_path"]).read_text()
    assert "THE WORKLOAD SPEAKS" not in applied.out
    assert "THE WORKLOAD SPEAKS" not in applied.err


def test_runs_leave_nothing_but_their_output_and_results_stay_out_of_git(applied):
    kept = {path.name for path in (applied.project / ".tfopt" / "runs").rglob("*.*")}
    assert kept == {"output.txt"}
    assert (applied.project / ".tfopt" / ".gitignore").read_text() == "*\n"


def test_the_summary_names_the_verdict_and_every_plugin(applied):
    flowing = " ".join(applied.out.split())
    assert "Verdict" in flowing
    assert applied.data["comparison"]["statement"] in flowing
    for plugin in STACK:
        assert plugin in flowing
    assert applied.data["id"] in flowing


def test_piped_output_is_plain_and_at_most_80_columns_wide(applied):
    for text in (applied.out, applied.err):
        assert "\x1b" not in text
        assert "\r" not in text
    assert max(len(line) for line in applied.out.splitlines()) <= 80


def test_progress_goes_to_standard_error_and_says_which_run_of_how_many(applied):
    for number in range(1, 9):
        assert f"run {number} of " in applied.err
        assert f"run {number} of " not in applied.out


@pytest.mark.promise(33, injected="FOO_TOKEN is set, all files and the output are searched for it")
def test_a_secret_of_the_environment_is_nowhere_in_what_is_kept_or_printed(applied):
    assert SECRET not in applied.out + applied.err
    assert "FOO_TOKEN" not in applied.out + applied.err
    for path in applied.project.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET.encode() not in content, path
            assert b"FOO_TOKEN" not in content, path


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_require_faster_agrees_with_the_verdict_and_save_keeps_a_model(
    tmp_path, monkeypatch, capsys
):
    import keras
    from support.in_process import carry_out_here

    from tfopt_core.commands.main import run

    carry_out_here(monkeypatch)
    project = tiny_project(tmp_path)
    monkeypatch.chdir(project)
    code = run(
        ["apply", "recipe.toml", "-q", "--require", "faster", "--json", "-", "--save", "m.keras"]
    )
    printed = capsys.readouterr()
    assert code in (0, 1), printed.err
    data = json.loads(printed.out)
    assert code == (0 if data["comparison"]["verdict"] == "faster" else 1)
    assert "tfopt report" in printed.err
    assert data["saved_model"].startswith("m.keras (run ")
    assert keras.saving.load_model(project / "m.keras").count_params() == 3
