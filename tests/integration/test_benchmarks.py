"""Every benchmark still runs: in its smallest form, and what it needs without training."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from support.forked_command import HASTY
from support.real_process import python
from support.stored_measurements import FIRST_RESULTS

from tfopt_core.app.command_request import make_request
from tfopt_core.hooks.card import math_of
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.records.fit import Block
from tfopt_core.report.results.as_json import to_json

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What the benchmarks share, and none itself.
HELPERS = {"catalogue_page", "catalogue_rows", "measured", "networks", "options"}
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


# What each does beside training, so that a vanished function or key is seen without it


@named("diagnose_bounds")
def test_the_stacks_of_the_bounds_are_recipes(benchmark, tmp_path):
    (tmp_path / "pyproject.toml").touch()
    requests = benchmark.stack_requests(tmp_path, "weather", smoke=False)
    assert list(requests) == ["baseline", "input", "dispatch", "compute"]
    row, held = benchmark.line("input", [1.5, 1.7, 1.6], 1.3)
    assert "1.60x" in row
    assert not held


@named("distribution")
def test_the_table_of_strategies_is_printed(benchmark, capsys):
    [fit, *_] = FIRST_RESULTS.runs[0].fits
    fit = attrs.evolve(fit, blocks=(Block(10, 9.0, 0), Block(10, 0.02, 1)))
    benchmark.print_table({name: [fit] for name in benchmark.STRATEGIES}, "mlp")
    assert "2.00" in capsys.readouterr().out.splitlines()[2]
    options = argparse.Namespace(network="mlp", steps=4, smoke=True)
    assert "epochs = 2" in benchmark.recipe_text(benchmark.ONE, options)


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


@named("adapting")
def test_each_model_of_the_adapting_benchmark_is_there(benchmark):
    for factory, _, _ in benchmark.MODELS.values():
        assert factory is None or callable(factory)


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
    elsewhere = row("PyTorch", [0.1, 0.1, 0.1], loss=1.2)
    failed = rows.Row("PyTorch", "PyTorch compiled", True, ({"failed": "no compiler"},) * 3)
    table = page.table([stock, close, elsewhere, failed, ours])
    assert table.count("void") == 1
    assert "failed: no compiler" in table
    assert "tfopt is **level**" in table
    summary = page.standings_part({"mlp": [stock, close, elsewhere, ours]})
    assert "ahead or level on 1 of 1" in summary
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
def test_the_plan_counts_what_a_store_lacks(benchmark, tmp_path):
    from peers.course import Course, Store
    from peers.lines import grids
    from peers.rounds import OutOfTime, Race

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


@named("catalogue")
def test_its_rows_are_recipes(benchmark, tmp_path):
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "recipe.toml"
    for name, row in benchmark.ROWS.items():
        for place in (row.helps, row.harms):
            path.write_text(benchmark.recipe_text(benchmark.PLACES[place], name, row))
            request, _ = make_request(str(path), [], compares=False)
            [stacked] = (*request.plugins, *request.observers)
            if math_of(name, stacked.plugin) == "changes":
                assert benchmark.PLACES[place].target is not None, f"{name} on {place}"


def catalogue_run(seconds, **changes):
    plain = {"seconds": seconds, "seconds_to_target": None, "peak_rss_bytes": int(1e8 * seconds),
             "math": "exact", "disturbance": {}}  # fmt: skip
    return {**plain, **changes}


@named("catalogue")
def test_its_page_says_gains_with_intervals_and_why_a_plugin_was_not_applied(benchmark, tmp_path):
    store = benchmark.Store(tmp_path / "runs.jsonl", "1")
    for noise in (0.99, 1.0, 1.01, 1.02):
        runs = {"baseline": catalogue_run(2 * noise), "cache": catalogue_run(1.0)}
        store.add("files", runs)
    store.add("prepared rows", {"baseline": catalogue_run(1), "cache": {"why_not": "a | b"}})
    again = benchmark.Store(tmp_path / "runs.jsonl", "1")
    assert benchmark.lacking(again, "files", ["cache"], 4) == []
    assert benchmark.lacking(again, "files", ["cache"], 5) == ["cache"]
    assert benchmark.lacking(again, "prepared rows", ["cache"], 4) == []
    page = benchmark.catalogue_page.page(again, ["cache"], 4)
    assert "| exact | help | files | 2.01x (1.97-2.05), faster | 2.01x (1.97-2.05), less |" in page
    assert "| not help | prepared rows | not applied: a / b | |" in page
    with pytest.raises(SystemExit, match="another version"):
        benchmark.Store(tmp_path / "runs.jsonl", "2")


@named("catalogue")
def test_what_changes_the_training_is_judged_by_the_time_to_a_target(benchmark):
    def side(*seconds):
        return [catalogue_run(9, math="changes", seconds_to_target=s) for s in seconds]

    to_target = benchmark.catalogue_page.to_target
    found = list(zip(side(4.0, 4.1, 4.2, 4.0), side(2.0, 2.0, 2.1, 2.0), strict=True))
    assert to_target(found).endswith("faster to the target")
    missed = list(zip(side(4.0, 4.1), side(None, 2.0), strict=True))
    assert to_target(missed) == "target reached in 1 of 2 runs, without it in 2"


@named("catalogue")
def test_a_round_holds_one_baseline_for_all_plugins_that_still_need_one(benchmark, tmp_path):
    class Bench:
        def run(self, place_name, place, name, row, seed):
            asked.append((place_name, name, seed))
            return {"why_not": "no GPU"} if name == "gpu-memory" else catalogue_run(1.0)

    asked = []
    store = benchmark.Store(tmp_path / "runs.jsonl", "1")
    places = {name: benchmark.PLACES[name] for name in ("pictures",)}
    benchmark.measure(store, Bench(), places, ["gpu-memory", "chunked", "cache"], 4)
    names = [sorted(name for _, name, seed in asked if seed == number) for number in range(4)]
    assert names == [["baseline", "chunked", "gpu-memory"], *[["baseline", "chunked"]] * 3]
    assert len(asked) == 9


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
