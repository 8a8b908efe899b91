"""Benchmarks still run: some in their smallest form, all as far as they need no training."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from support.real_process import python
from support.stored_measurements import FIRST_RESULTS

from tfopt_core.commands.output import to_json
from tfopt_core.commands.request import make_request
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.plugin_class import equivalence_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What the benchmarks share, and none itself.
HELPERS = {
    "catalogue_figures", "catalogue_page", "catalogue_rounds", "catalogue_rows", "catalogue_runs",
    "measured", "networks", "options", "pacing",
}  # fmt: skip
NAMES = sorted({path.stem for path in BENCHMARKS.glob("*.py")} - HELPERS)
# One of each kind: through the catalogue's workbench, by `tfopt apply`, in forks of its own, over
# replicas, against other systems, and with what `tfopt tune` finds.
KINDS = ("catalogue", "loops", "array_baseline", "distribution", "race", "tuned_stacks")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The benchmark that the test names, imported as Python imports a script's neighbours."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(request.param)


def named(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("benchmark", [name], indirect=True, ids=[name])


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_its_smallest_form_runs_to_its_end(name, tmp_path):
    done = python(BENCHMARKS / f"{name}.py", "--smoke", cwd=tmp_path)
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


@named("verdicts")
def test_what_a_verdict_is_read_from_is_in_the_json(benchmark):
    found = benchmark.read(to_json(FIRST_RESULTS))
    assert found["verdict"] == FIRST_RESULTS.comparison.verdict
    assert found["pairs"] == FIRST_RESULTS.comparison.pairs
    nothing = benchmark.read({"measured": False, "left_out": []})
    assert nothing["verdict"] == "nothing to gain"


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
def test_no_epoch_can_take_less_than_its_operations_and_its_bytes(benchmark):
    from peers.limits import Limits, Work

    limits = Limits({"float32": 1e9, "bfloat16": 4e9}, 2e9, 100.0)
    work = Work(steps=3, examples=80, parameters=9, step_operations=2e9, epoch_bytes=1e9)
    assert work.least_seconds(limits, True, 32) == pytest.approx(5.0)  # the last batch is half full
    assert work.least_seconds(limits, False, 32) == pytest.approx(1.25)
    bound_by_memory = attrs.evolve(work, epoch_bytes=1e11)
    assert bound_by_memory.least_seconds(limits, True, 32) == pytest.approx(50.0)
    assert attrs.evolve(work, step_operations=None).least_seconds(limits, True, 32) is None


@named("catalogue")
def test_every_plugin_has_its_row_in_the_catalogue(benchmark):
    ours = {n for n, found in registrations().items() if found[0].distribution == "tfopt"}
    assert set(benchmark.ROWS) == ours, "give a new plugin its row in benchmarks/catalogue_rows.py"
    for name, row in benchmark.ROWS.items():
        assert row.helps != row.harms, name
        assert {row.helps, row.harms} <= set(benchmark.PLACES), name


@pytest.mark.thorough
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


@named("possible")
def test_what_is_possible_is_named_for_plugins_of_shipped_recipes(benchmark):
    for name, ready in benchmark.READY.items():
        request = make_request(name, [ready.smoke], compares=True, keeps=False)[0]
        assert ready.plugin in [stacked.name for stacked in request.plugins]
