"""Every benchmark still runs: in its smallest form, and what it needs without training."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import random
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from support.forked_command import HASTY
from support.real_process import python
from support.stored_measurements import FIRST_RESULTS, make_run

from tfopt_core.commands.request import make_request
from tfopt_core.hooks.card import equivalence_of
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.records.run import Block
from tfopt_core.report.results.as_json import to_json

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What the benchmarks share, and none itself.
HELPERS = {
    "catalogue_figures", "catalogue_page", "catalogue_rounds", "catalogue_rows", "catalogue_runs",
    "measured", "networks", "options", "pacing",
}  # fmt: skip
NAMES = sorted({path.stem for path in BENCHMARKS.glob("*.py")} - HELPERS)


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The benchmark that the test names, imported as Python imports a script's neighbours."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(request.param)


def named(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("benchmark", [name], indirect=True, ids=[name])


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_its_smallest_form_runs_to_its_end(name, tmp_path):
    done = python(BENCHMARKS / f"{name}.py", "--smoke", cwd=tmp_path, before=HASTY)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) >= 2, done.err


@pytest.mark.parametrize("benchmark", NAMES, indirect=True)
def test_it_can_be_imported_and_has_a_smallest_form(benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark", "--help"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 0
    assert "--smoke" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("benchmark", "option", "value"),
    [
        *[("race", option, value) for option in ("--rounds", "--left-out-rounds")
          for value in ("0", "-1", "many")],
        ("tuned_stacks", "--rounds", "0"), ("catalogue", "--most", "0"), ("soak", "--applies", "0"),
        *[(name, "--out", "gone/page.md")
          for name in ("race", "tuned_stacks", "catalogue", "verdicts")],
    ],
    indirect=["benchmark"],
)  # fmt: skip
def test_its_options_are_checked_before_anything_runs(
    benchmark, option, value, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["benchmark", "--plan", option, value])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2
    assert f"argument {option}: " in capsys.readouterr().err


# What each does beside training, so that a vanished function or key is seen without it


@named("diagnose_bounds")
def test_the_stacks_of_the_bounds_are_recipes(benchmark, tmp_path):
    (tmp_path / "pyproject.toml").touch()
    requests = benchmark.stack_requests(tmp_path, "weather", smoke=False)
    assert list(requests) == ["baseline", "input", "dispatch", "compute"]
    row, held = benchmark.line("input", [1.5, 1.7, 1.6], 1.3)
    assert "1.60x" in row
    assert not held


@named("tuned_stacks")
def test_a_found_stack_meets_the_bar_where_its_whole_interval_does(benchmark):
    def trained(seconds):
        return {"whole_seconds": [9.0, seconds, seconds]}

    def compared(*found):
        return benchmark.in_words(
            benchmark.ratio(
                [
                    {"hand-made-0": trained(2.0), "hand-made-1": trained(1.0), "found": trained(f)}
                    for f in found
                ],
                benchmark.WHOLE,
            )
        )

    assert compared(1.0, 1.01, 1.02) == ("0.99x (0.97 to 1.01)", "met")
    assert compared(1.2, 1.21, 1.22) == ("0.83x (0.81 to 0.84)", "missed")
    assert compared(0.8, 1.4, 1.0)[1] == "undecided"
    assert compared(1.0) == ("1.00x", "undecided")
    failed = {"hand-made-0": trained(1.0), "found": {"failed": "why"}}
    assert benchmark.ratio([failed], benchmark.WHOLE) is None


@named("tuned_stacks")
def test_recipes_that_are_the_same_stack_are_not_compared(benchmark):
    own, other = {"stack": {"resident": {"xla": False}}}, {"stack": {"resident": {"xla": True}}}
    assert benchmark.all_same_stack({"found": own, "hand-made-0": own})
    assert not benchmark.all_same_stack({"found": own, "hand-made-0": own, "hand-made-1": other})
    assert not benchmark.all_same_stack({"found": {}, "hand-made-0": {}})
    first = {"hand-made-0": own, "hand-made-1": own, "hand-made-2": other}
    assert benchmark.distinct(first, list(first)) == ["hand-made-0", "hand-made-2"]
    assert benchmark.NOT_APPLIED.findall("\u2713  a  applied: x\n-  b-c  not applied: y\n") == [
        "b-c"
    ]


@named("distribution")
def test_the_table_of_strategies_is_printed(benchmark, capsys):
    [fit, *_] = FIRST_RESULTS.runs[0].fits
    fit = attrs.evolve(fit, blocks=(Block(10, 9.0, 0), Block(10, 0.02, 1)))
    benchmark.print_table({name: [fit] for name in benchmark.STRATEGIES}, "mlp")
    assert "2.00" in capsys.readouterr().out.splitlines()[2]
    options = argparse.Namespace(network="mlp", steps=4, smoke=True)
    assert "epochs = 2" in benchmark.recipe_text(benchmark.ONE, options)


@named("verdicts")
def test_scripts_are_lengthened_and_the_bars_are_counted(benchmark, tmp_path):
    for name, training in benchmark.TRAININGS.items():
        target = training.written_to(tmp_path, name)
        assert target == name or (tmp_path / target).read_text() != training.file.read_text()
    found = {"verdict": "faster", "speedup": 1.4, "low": 1.36, "high": 1.44, "pairs": 6,
             "seconds": 130.0, "start_seconds": 2.0, "whole": False}  # fmt: skip
    rows = [
        benchmark.Row("a", "idle", found),
        benchmark.Row("b", "busy", {**found, "verdict": "inconclusive", "low": 0.9, "high": 2.0}),
        benchmark.Row("c", "idle", {"verdict": "nothing to gain", "seconds": 200.0}),
    ]
    first, *_, said = benchmark.table(rows).splitlines()[2:]
    assert first == "| a | idle | faster | 1.40x (1.36 to 1.44) | 2.9% | 6 | 130 | 144 |"
    assert said == (
        "In time: 2 of 3. Narrow enough: 1 of 2 with an interval. Gains of 1.3x and more that are "
        'called "faster": 1 of 2.'
    )


@named("verdicts")
def test_what_a_verdict_is_read_from_is_in_the_json(benchmark):
    found = benchmark.read(to_json(FIRST_RESULTS))
    assert found["verdict"] == FIRST_RESULTS.comparison.verdict
    assert found["pairs"] == FIRST_RESULTS.comparison.pairs
    nothing = benchmark.read({"measured": False, "left_out": []})
    assert nothing["verdict"] == "nothing to gain"


@named("input_pipeline")
def test_the_recipes_of_the_input_pipeline_are_recipes(benchmark, tmp_path):
    for name, _, text in benchmark.recipes(tmp_path, pairs=4, epochs=2):
        path = tmp_path / f"{name.replace(' ', '-')}.toml"
        path.write_text(textwrap.dedent(text))
        assert make_request(str(path), [], compares=True)[0].plugins


@named("loops")
def test_the_recipes_of_the_loops_are_recipes(benchmark, tmp_path):
    for name in benchmark.LINES:
        path = tmp_path / f"{name}.toml"
        path.write_text(textwrap.dedent(benchmark.recipe_text(name, pairs=4)))
        assert make_request(str(path), [], compares=True)[0].plugins


@named("measuring_cost")
def test_the_recipe_of_the_measuring_cost_is_one(benchmark, tmp_path):
    for recipe in (benchmark.RECIPE, benchmark.SMOKE_RECIPE):
        request = benchmark.request_in(tmp_path, recipe % 4, compares=True)
        assert [stacked.name for stacked in request.plugins] == ["steps-per-execution"]
    row = benchmark.line("fork", 8, 20.0, 10.0, 0.2, 20.0, 1, "faster")
    assert "100%" in row


@named("measured")
def test_what_the_benchmarks_read_of_the_json_is_there(benchmark):
    results = to_json(FIRST_RESULTS)
    pairs = benchmark.pairs_of(results)
    assert len(pairs) == 4
    walls = zip(
        *((base["wall_seconds"], full["wall_seconds"]) for base, full in pairs), strict=True
    )
    assert benchmark.speedup(*map(list, walls)).startswith("1.2")
    run_with_blocks = {"fits": [{"blocks": [
        {"steps": 5, "seconds": 9.0, "epoch": 0, "cold": ""},
        {"steps": 5, "seconds": 0.1, "epoch": 1, "cold": ""},
    ]}]}  # fmt: skip
    assert benchmark.warm_step_seconds(run_with_blocks) == pytest.approx(0.02)


@named("scripts")
def test_a_line_is_made_of_the_json_of_a_first_contact(benchmark):
    line = benchmark.line_of("mine", to_json(FIRST_RESULTS), 60.0)
    assert (line.verdict, line.speedup, line.stack) == (
        "faster", "1.25x (1.24 to 1.26)", "cache",
    )  # fmt: skip
    idle = benchmark.line_of("mine", {"measured": False, "left_out": [{"plugin": "p"}]}, 9.0)
    assert idle.verdict == "nothing to gain"


@named("reports")
def test_the_figures_of_a_report_are_found_in_the_json(benchmark):
    results = to_json(FIRST_RESULTS)
    results["recipe"] = "report-l2-subset"
    for index, one in enumerate(results["runs"]):
        slow = one["variant"] == "baseline"
        losses = [1.0, 0.6, 0.5, 0.45 + index / 1e3] if slow else [0.9, 0.4, 0.41, 0.4]
        one["fits"][-1]["history"] = {"val_data_loss": losses}
        one["fits"][-1]["trainable_parameters"] = 7_300_000 if slow else 6_100_000
    text = "\n".join(benchmark.table("report-l2-subset", results))
    assert "7.3 -> 6.1 million                      7.30 -> 6.10 million trainable" in text
    row = next(line.split() for line in text.splitlines() if "time of the training" in line)
    assert row[4] == "-7.9%"
    assert float(row[5].rstrip("%")) == pytest.approx(-20, abs=0.5)  # 1.25 times as fast
    assert "level of epoch 4 reached at epoch 2.0 (2.0 to 2.0)" in text
    assert "tfopt's verdict: faster: 1.25x" in text


@named("race")
def test_the_race_has_a_winner_by_its_rule_and_void_rows(benchmark, tmp_path):
    from peers import lines, page
    from peers import standings as rows

    def row(system, seconds, loss=1.0, exact=True):
        reports = [
            {"epoch_seconds": [9.0, s, s], "reached_seconds": [9.0, 9 + s, 9 + 2 * s],
             "losses": [2.0, 1.5, loss], "validation_losses": [2.1], "peak_mib": 100.0}
            for s in seconds
        ]  # fmt: skip
        return rows.Row(system, f"{system} {seconds[0]}", exact, tuple(reports))

    stock, ours = row("stock Keras", [4.0, 4.2, 4.1]), row("tfopt", [1.0, 1.05, 1.02])
    close = row("PyTorch", [1.0, 1.04, 1.03])
    assert rows.standing(rows.ratio(stock, ours)) == "ahead"
    assert rows.standing(rows.ratio(close, ours)) == "level"
    assert rows.standing(rows.ratio(ours, stock)) == "behind"
    assert rows.standing((1.1, 0.7, 1.7)) == "undecided"
    elsewhere = row("PyTorch", [0.1, 0.1, 0.1], loss=1.2)
    failed = rows.Row("PyTorch", "PyTorch compiled", True, ({"failed": "no compiler"},) * 3)
    table = page.table([stock, close, elsewhere, failed, ours])
    assert table.count("void") == 1
    assert "failed: no compiler" in table
    assert "tfopt is **level**" in table
    summary = page.standings_part({"mlp": [stock, close, elsewhere, ours]})
    assert "level on 1, of 1" in summary
    assert "**4.01x (" in summary  # against stock, over one training
    for name in lines.LINES:
        for number, contestant in enumerate(lines.ours(name)):
            path = tmp_path / f"{name}-{number}.toml"
            path.write_text(lines.recipe_text(name, contestant.options["recipe"], 3, None))
            assert make_request(str(path), [], compares=False)[0].plugins


@named("race")
def test_a_row_is_void_by_what_stock_keras_differs_over_seeds_and_jax_is_a_reference(benchmark):
    from peers import standings as rows

    def row(system, losses, exact=True):
        reports = tuple({"epoch_seconds": [1.0, 1.0], "losses": [2.0, loss]} for loss in losses)
        return rows.Row(system, system, exact, reports)

    steady, noisy = row("stock Keras", [1.0, 1.01, 0.99]), row("stock Keras", [1.0, 1.06, 0.94])
    other = row("PyTorch", [1.09, 1.1, 1.08])
    assert rows.loss_tolerance([steady]) == 0.05
    assert rows.is_void(other, [steady, other])
    assert rows.loss_tolerance([noisy]) == pytest.approx(0.158, abs=0.01)
    assert not rows.is_void(other, [noisy, other])
    on_jax = row("Keras on JAX", [1.12, 1.1, 1.11])
    assert not rows.is_void(other, [steady, on_jax, other])
    assert rows.is_void(other, [steady, row("Keras on JAX", [1.1] * 3, exact=False), other])
    assert rows.is_void(row("PyTorch", [1.0, float("nan"), 1.0]), [noisy])


@named("race")
def test_the_page_shows_shares_of_the_limit_and_what_each_plugin_brought(benchmark):
    from peers import page
    from peers.limits import Limits, Work
    from peers.standings import Row

    def row(system, seconds, left_out="", races=True):
        report = {"epoch_seconds": [9.0, seconds], "reached_seconds": [9.0, 12.0],
                  "losses": [2.0, 1.0], "validation_losses": [2.1], "peak_mib": 100.0}  # fmt: skip
        return Row(system, system, True, (report, report), left_out, races)

    rows = [row("stock Keras", 4.0), row("tfopt", 1.0), row("tfopt", 2.0, "resident", races=False)]
    text = page.page(page.Race(
        lines={"cnn": rows}, grids={"cnn": [("PyTorch", "eager", "failed: no compiler")]},
        works={"cnn": Work(10, 320, 9, 1e9, 1e6)}, machine="a machine", versions={"keras": "3"},
        limits=Limits({"float32": 2e10, "bfloat16": 5e10}, 1e10, 100.0), date="today",
    ))  # fmt: skip
    assert "| cnn | 1.000 | 10 | 0.500 | 50% (tfopt) | 0.200 | 20% (tfopt) |" in text
    assert "| `resident` | 2.00x (2.00 to 2.00) |" in text
    assert text.count("**tfopt**") == 1
    assert "failed: no compiler" in text
    assert (
        "against stock Keras, in any precision: **4.00x (4.00 to 4.00)** over 1 training." in text
    )


@named("race")
def test_no_epoch_can_take_less_than_its_operations_and_its_bytes(benchmark):
    from peers.limits import Limits, Work

    limits = Limits({"float32": 1e9, "bfloat16": 4e9}, 2e9, 100.0)
    work = Work(steps=3, examples=80, parameters=9, step_operations=2e9, epoch_bytes=1e9)
    assert work.least_seconds(limits, True, 32) == pytest.approx(5.0)  # the last batch is half full
    assert work.least_seconds(limits, False, 32) == pytest.approx(1.25)
    bound_by_memory = attrs.evolve(work, epoch_bytes=1e11)
    assert bound_by_memory.least_seconds(limits, True, 32) == pytest.approx(50.0)
    assert attrs.evolve(work, step_operations=None).least_seconds(limits, True, 32) is None


@named("race")
def test_an_option_that_ends_its_process_has_failed_and_the_others_are_tried(
    benchmark, tmp_path, monkeypatch
):
    from peers import course as courses
    from peers.lines import grids

    (tmp_path / "compiled.json").write_text('{"examples": 5000}')
    grid = grids()["PyTorch"]
    processes = []

    def process(command, folder, environment):
        task = json.loads((folder / "task.json").read_text())
        processes.append(task["grid"])
        reports, failed = [{"epoch_seconds": [1.0, 1.0]}], {"failed": "ended by SIGSEGV"}
        if len(processes) == 2:
            reports, failed = reports * len(task["grid"]), {}
        text = "".join(json.dumps(report) + "\n" for report in reports)
        (folder / "out.json").write_text(text)
        return {"process_seconds": 2.0, **failed}

    monkeypatch.setattr(courses, "run_process", process)
    found = {}
    course = courses.Course("mlp", tmp_path, tmp_path, 3, [1], None)
    course.tried(grid, lambda contestant, report: found.update({contestant.label: report}))
    assert [report.get("failed") for report in found.values()] == [
        None, "ended by SIGSEGV", None, None,
    ]  # fmt: skip
    assert [len(each) for each in processes] == [4, 2]


# A contestant that sleeps for a while in each epoch, and writes down when it did.
SLEEPER = """
import json, sys, time
from pathlib import Path
from peers import contestant
seconds, fails = float(sys.argv[1]), sys.argv[2] == "fails"
timer = contestant.EpochTimer(time.monotonic(), 2)
slept = []
for epoch in range(timer.most_epochs):
    timer.begin()
    began = time.monotonic()
    time.sleep(seconds)
    slept.append((began, time.monotonic()))
    if fails:
        sys.exit("no epoch ends here")
    timer.end(timer.passed(), 1.0 / (epoch + 1), 1.0)
    if timer.is_over:
        break
timer.report.write(Path("out.json"))
Path("slept.json").write_text(json.dumps(slept))
"""


@named("race")
def test_contestants_train_in_turns_and_one_that_fails_ends_no_other(benchmark, tmp_path):
    from peers.turns import Start, train_in_turns

    sleepers = {"quick": ("0.02", ""), "slow": ("0.06", ""), "failing": ("0.01", "fails")}
    starts = []
    for name, arguments in sleepers.items():
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", SLEEPER, *arguments]
        starts.append(Start(tmp_path / name, lambda command=command: (command, {})))
    *done, failed = train_in_turns(starts, random.Random(1), seconds=0.45, limit_seconds=60)
    assert "no epoch ends here" in failed["failed"]
    assert [report.get("failed") for report in done] == [None, None]
    written = [json.loads((tmp_path / name / "out.json").read_text()) for name in ("quick", "slow")]
    slept = [json.loads((tmp_path / name / "slept.json").read_text()) for name in ("quick", "slow")]
    # never at once, and each more than once in turn
    epochs = sorted((*times, who) for who, each in enumerate(slept) for times in each)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(epochs))
    turns = [who for who, _ in itertools.groupby(epochs, key=lambda epoch: epoch[2])]
    assert len(turns) >= 4
    for report, each in zip(written, slept, strict=True):
        assert report["losses"] == [1.0, 0.5], "of the epochs that are compared, whatever is timed"
        # the first epoch of each turn but the first is not timed
        assert len(report["epoch_seconds"]) == len(report["whole_seconds"]) == len(each) - 1
        assert sum(report["epoch_seconds"][1:]) > 0.3
        own, others = each[1][1], [epoch for epoch in epochs if list(epoch[:2]) not in each]
        asleep = sum(end - began for began, end, _ in others if report["started"] < end < own)
        assert report["reached_seconds"][1] < own - report["started"] - asleep


@named("race")
def test_a_contestant_that_takes_too_long_has_failed_and_is_ended(benchmark, tmp_path):
    from peers.turns import Start, train_in_turns

    command = [sys.executable, "-c", SLEEPER, "30", ""]
    command[2] = "import os; print(os.getpid(), flush=True)" + SLEEPER
    [report] = train_in_turns([Start(tmp_path, lambda: (command, {}))], random.Random(1), 1.0, 1.0)
    assert report["failed"] == "it took longer than 1 s"
    assert not Path("/proc", (tmp_path / "output.txt").read_text().strip()).exists()


@named("race")
def test_a_race_goes_on_after_a_torn_line_and_refuses_runs_of_other_settings(benchmark, tmp_path):
    from peers.course import Store

    path = tmp_path / "runs.jsonl"
    store = Store(path, {"smoke": True})
    store.keep("one", {"epoch_seconds": [1.0]})
    store.keep("two", {"failed": "no compiler"})
    with path.open("a") as file:
        file.write('{"three": {"epoch_')
    again = Store(path, {"smoke": True})
    again.keep("three", {})
    found = Store(path, {"smoke": True}, retry=True)
    assert [found.get(key) for key in ("one", "two", "three")] == [
        {"epoch_seconds": [1.0]}, None, {},
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="other settings"):
        Store(path, {"smoke": False})


@named("race")
def test_a_race_of_more_rounds_prepares_the_models_that_it_lacks(benchmark, tmp_path, monkeypatch):
    from peers.course import Course
    from peers.files import Files

    asked = []
    monkeypatch.setattr(Course, "_run", lambda self, python, module, task: asked.append(task) or {})
    monkeypatch.setattr(Course, "_task", lambda self, options, seed: options)
    course = Course("mlp", tmp_path, tmp_path, 2, range(1, 4), 64)
    course.prepare()
    for seed in (1, 2):
        Files(tmp_path, seed).output.touch()
    Files(tmp_path, 0).compiled.touch()
    course.prepare()
    Files(tmp_path, 3).output.touch()
    course.prepare()
    assert [options["seeds"] for options in asked] == [[1, 2, 3], [3]]


@named("race")
def test_the_plan_counts_what_a_store_lacks(benchmark, tmp_path):
    from pacing import OutOfTime
    from peers.course import Course, Store
    from peers.lines import grids
    from peers.rounds import Race

    (tmp_path / "mlp").mkdir()
    (tmp_path / "mlp" / "compiled.json").touch()  # as if it had been prepared

    def race():
        store = Store(tmp_path / "runs.jsonl", {})
        course = Course("mlp", tmp_path / "mlp", tmp_path, 3, [1, 2], None)
        return Race({"mlp": course}, store, rounds=2, smoke=False, has_peers=False)

    first, options = race(), grids()["hand-set Keras"]
    # the options, the limits, and two rounds of stock, tfopt and perhaps two of hand-set Keras
    assert first.left()[0] == len(options) + 1 + 2 * 4
    for seconds, option in enumerate(options, 1):
        report = {"epoch_seconds": [9.0, seconds], "cut": False, "process_seconds": 1.0}
        first.store.keep(f"mlp grid {option.label}", report)
    again = race()
    assert [c.system for c in again.contestants("mlp")] == [
        "stock Keras",
        "hand-set Keras",
        "tfopt",
    ]
    assert again.left()[0] == 1 + 2 * 3
    again.until = 0.0
    with pytest.raises(OutOfTime):
        again.run()


@named("catalogue")
def test_every_plugin_has_its_row_in_the_catalogue(benchmark):
    ours = {n for n, found in registrations().items() if found[0].distribution == "tfopt"}
    assert set(benchmark.ROWS) == ours, "give a new plugin its row in benchmarks/catalogue_rows.py"
    for name, row in benchmark.ROWS.items():
        assert row.helps != row.harms, name
        assert {row.helps, row.harms} <= set(benchmark.PLACES), name


@named("catalogue_runs")
def test_the_rows_of_the_catalogue_are_recipes_and_have_a_target_where_they_need_one(
    benchmark, tmp_path
):
    from catalogue_rows import PLACES, ROWS

    new = set()
    with benchmark.Workbench(tmp_path, PLACES) as bench:
        for name, row in ROWS.items():
            for place in (row.helps, row.harms):
                request = bench._request(place, name)
                [stacked] = (*request.plugins, *request.observers)
                if equivalence_of(name, stacked.plugin) == "changes":
                    assert PLACES[place].target is not None, f"{name} on {place}"
                if bench.baseline_of(place, name) == benchmark.NEW_PROCESS:
                    new.add(name)
    assert new == {"threads", "multi-worker", "parameter-server"}


@named("catalogue_runs")
def test_comments_and_docstrings_void_no_run_and_code_does(benchmark, tmp_path):
    def hashed(text, where="a.py"):
        (tmp_path / "of tfopt" / "cli").mkdir(parents=True, exist_ok=True)
        (tmp_path / "of tfopt" / where).write_text(text)
        return benchmark.code_hash(tmp_path / "of tfopt", left_out={"cli"})

    first = hashed('"""One."""\nA = {1, 2}\n')
    assert hashed('"""Another."""\n# more\n\nA = {1, 2}\n') == first
    assert hashed("print()", "cli/b.py") == first
    assert hashed('"""One."""\nA = {1, 3}\n') != first


class Bench:
    """Trains nothing: the runs of "cache" take half of the time, "gpu-memory" is not applied."""

    def __init__(self, keys="1"):
        self.asked, self.keys = [], keys

    def key(self, place, name):
        return self.keys if name == "cache" else "1"

    def baseline_of(self, place, name):
        new = name in ("threads", "baseline in a new process")
        return "baseline in a new process" if new else "baseline"

    def run(self, place, name, number, settings):
        from catalogue_rows import ROWS
        from catalogue_runs import CatalogueRun

        self.asked.append((place, name, number, settings))
        key = self.key(place, name)
        if name == "gpu-memory":
            return CatalogueRun(key=key, seconds=9.0, why_not="no | GPU")
        # "xla" takes as long as the baseline, now less and now more
        seconds = {"cache": 1.0, "xla": 2.0 * (1.04, 0.95)[number % 2]}.get(name, 2.0)
        seconds *= 1 + number / 100
        run = make_run(place, name, number, seconds)
        fit = attrs.evolve(
            run.fit, step_seconds=seconds / 50, one_time_seconds=3 - seconds,
            seconds_to_target=seconds,
        )  # fmt: skip
        started = "forked" if self.baseline_of(place, name) == "baseline" else "spawned"
        run = attrs.evolve(run, peak_rss_bytes=int(1e8 * seconds), fits=(fit,), started=started)
        return CatalogueRun(
            key=key, seconds=seconds, run=run, equivalence="exact" if name in ROWS else None,
            settings={"resolved": name},
        )  # fmt: skip


def catalogue_of(folder, bench, names, *places, pairs=4, most=4):
    from catalogue_rounds import Catalogue
    from catalogue_rows import PLACES
    from peers.course import Store

    store = Store(folder / "rounds.jsonl", {"code": "1"})
    return Catalogue(names, {place: PLACES[place] for place in places}, bench, store, pairs, most)


@named("catalogue_page")
def test_the_catalogue_says_gains_with_intervals_and_why_a_plugin_was_not_applied(
    benchmark, tmp_path
):
    catalogue = catalogue_of(tmp_path, Bench(), ["cache", "gpu-memory", "threads"], "prepared rows")
    assert "too few pairs: 0 of 4" in benchmark.table(catalogue)
    catalogue.run()
    again = catalogue_of(
        tmp_path, Bench(), ["cache", "gpu-memory", "threads"], "prepared rows", pairs=4
    )
    assert again.left() == (0, 0)
    page = benchmark.page(again, smoke=False)
    same = "1.00x (1.00-1.00), no difference"
    twice = "2.00x (2.00-2.00)"
    assert (
        f"| exact | not help | prepared rows | {twice}, faster | 1.0 -> 2.0 s | {twice}, faster "
        f"| {twice}, less | 4 |" in page
    )
    assert "| not help | prepared rows | not applied: no / GPU |" in page
    assert f"| help | prepared rows | {same} |" in page
    assert "- Faster: cache (prepared rows)." in page
    assert "- Not applied on either of its workloads: gpu-memory." in page
    assert "- Helped nowhere here: threads (prepared rows: no difference)." in page
    # two baselines, and of "gpu-memory" one run
    assert f"\n{4 * 4 + 1} runs." in page


@named("catalogue_figures")
def test_what_changes_the_training_is_judged_by_the_time_to_a_target(benchmark, tmp_path):
    catalogue = catalogue_of(tmp_path, Bench(), ["cache"], "files")
    catalogue.run()
    pairs = catalogue.pairs_of("files", "cache")
    before, after = benchmark.judged_seconds(pairs, "changes")
    assert [b / a for b, a in zip(before, after, strict=True)] == pytest.approx([2.0] * 4)

    def missed(pair):
        fit = attrs.evolve(pair.with_.fit, seconds_to_target=None)
        return attrs.evolve(pair, with_=attrs.evolve(pair.with_, fits=(fit,)))

    words = benchmark.judged_seconds([*map(missed, pairs[:2]), *pairs[2:]], "changes")
    assert words == "target reached in 2 of 4 runs, without it in 4"


@named("catalogue_rounds")
def test_a_round_holds_one_baseline_for_all_plugins_that_still_need_one(benchmark, tmp_path):
    bench = Bench()
    catalogue = catalogue_of(tmp_path, bench, ["gpu-memory", "chunked", "threads"], "pictures")
    assert catalogue.left()[0] == 4 * 5  # before the first round all count
    catalogue.run()
    names = [sorted(name for _, name, number, _ in bench.asked if number == n) for n in range(4)]
    both = ["baseline", "baseline in a new process", "chunked", "threads"]
    assert names == [[*both[:3], "gpu-memory", both[3]], both, both, both]
    resolved = {settings and settings["resolved"] for *_, settings in bench.asked[5:]}
    assert resolved == set(both), "settings are resolved once"


@named("catalogue_rounds")
def test_a_place_whose_baseline_fails_is_given_up_and_the_others_are_measured(
    benchmark, tmp_path, capsys
):
    class Broken(Bench):
        def run(self, place, name, number, settings):
            if (place, name) == ("files", "baseline"):
                return benchmark.CatalogueRun(key="1", failed="no data")
            return super().run(place, name, number, settings)

    catalogue = catalogue_of(tmp_path, Broken(), ["cache"], "files", "prepared rows")
    catalogue.run()
    assert catalogue.pairs_of("files", "cache") == []
    assert len(catalogue.pairs_of("prepared rows", "cache")) == 4
    assert "files is given up in this call" in capsys.readouterr().out


@named("catalogue_rounds")
def test_runs_of_other_code_are_measured_again_and_open_verdicts_get_more_pairs(
    benchmark, tmp_path
):
    from pacing import OutOfTime

    first = catalogue_of(tmp_path, Bench(), ["cache"], "files")
    first.until = 0.0
    with pytest.raises(OutOfTime):
        first.run()
    first.until = float("inf")
    first.run()
    changed = Bench(keys="2")
    again = catalogue_of(tmp_path, changed, ["cache"], "files")
    assert again.left()[0] == 2 * 4
    again.run()
    assert len(again.pairs_of("files", "cache")) == 4
    both = catalogue_of(tmp_path, changed, ["xla", "cache"], "text", most=8)
    both.run()
    assert len(both.pairs_of("text", "xla")) == 8
    with pytest.raises(SystemExit, match="other settings \\(code\\)"):
        type(both.store)(tmp_path / "rounds.jsonl", {"code": "2"})


@named("catalogue")
def test_a_page_without_links_says_which_lines_to_add(benchmark, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in benchmark.LINKS:
        (tmp_path / name).write_text("# tfopt\n")
    assert [line.partition(" ")[0] for line in benchmark.missing_links(tmp_path)] == [
        *benchmark.LINKS
    ]
    for name, line in benchmark.LINKS.items():
        (tmp_path / name).write_text(f"{line}\n")
    assert benchmark.missing_links(tmp_path) == []


@named("possible")
def test_a_stack_is_compared_with_what_is_possible(benchmark):
    seconds = {
        "stock": [(8.0, 0.8), (8.2, 0.9)],
        "stack": [(2.0, 0.2), (2.1, 0.2)],
        "possible": [(1.0, 0.1), (1.0, 0.1)],
        "made ready": [(4.0, 0.1), (4.2, 0.1)],
    }
    stock, stack, possible, made_ready, *epochs = benchmark.rows("mine", seconds)
    assert "x" not in stock
    assert "3.95x" in stack
    assert "8.10x" in possible
    assert "49%" in possible
    assert "1.98x" in made_ready
    assert "200%" in made_ready
    assert ["made ready" in line for line in epochs] == [False] * 3


@named("possible")
def test_what_is_possible_is_named_for_plugins_of_shipped_recipes(benchmark):
    for name, ready in benchmark.READY.items():
        request = make_request(name, [ready.smoke], compares=True, keeps=False)[0]
        assert ready.plugin in [stacked.name for stacked in request.plugins]
