"""Every benchmark still runs: in its smallest form, and what it needs without training."""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from support.real_process import run
from support.stored_measurements import FIRST_RESULTS

from tfopt_core.app.command_request import make_request
from tfopt_core.records.fit import Block
from tfopt_core.report.results.as_json import to_json

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What the benchmarks share, and none itself.
HELPERS = {"measured", "networks", "options"}
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
    done = run([sys.executable, BENCHMARKS / f"{name}.py", "--smoke"], cwd=tmp_path)
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


@named("adapting")
def test_each_model_of_the_adapting_benchmark_is_there(benchmark):
    for factory, _, _ in benchmark.MODELS.values():
        assert factory is None or callable(factory)


@named("possible")
def test_a_stack_is_compared_with_what_is_possible(benchmark):
    seconds = {
        "stock": [(8.0, 0.8), (8.2, 0.9)],
        "stack": [(2.0, 0.2), (2.1, 0.2)],
        "possible": [(1.0, 0.1), (1.0, 0.1)],
    }
    training = benchmark.rows("mine", seconds)[:3]
    assert "3.95x" in training[1]
    assert "49%" in training[1]
    assert "8.10x" in training[2]


@named("possible")
def test_what_is_possible_is_named_for_plugins_of_shipped_recipes(benchmark):
    for name, ready in benchmark.READY.items():
        request = make_request(name, [ready.smoke], compares=True, keeps=False)[0]
        assert ready.plugin in [stacked.name for stacked in request.plugins]
