"""Measurements that a test writes into a store: nothing is trained."""

from support.measure_runs import make_fit
from tfopt_core.hooks.values import Effect
from tfopt_core.statistics.results import Comparison, ComparisonKind, Results, Verdict
from tfopt_core.statistics.runs import RunResult
from tfopt_core.store.database import Store

FIRST, SECOND = "20261120-090000-aa01", "20261121-100000-bb02"


def make_run(id_: str, variant: str, round_: int, seconds: float) -> RunResult:
    return RunResult(
        id=f"{id_}-{round_}-{variant}", variant=variant, round=round_, position=0, seed=round_,
        status="ok", wall_seconds=seconds * (1 + round_ / 300),
        fits=(make_fit(metrics={"val_accuracy": 0.9 + round_ / 1000}, history={}),),
        effects={"cache": Effect(True, "in memory")} if variant == "full" else {},
    )  # fmt: skip


def make_results(id_: str, created_at: str, seconds: float, storage: str) -> Results:
    """Four pairs; a run with the stack takes so many seconds, one without ten."""
    runs = [
        made
        for round_ in range(4)
        for made in (make_run(id_, "baseline", round_, 10.0),
                    make_run(id_, "full", round_, seconds + round_ / 100))
    ]  # fmt: skip
    speedup = 10 / seconds
    return Results(
        id=id_, created_at=created_at, recipe=f"in-{storage}", recipe_sha256=storage,
        resolved={"cache": {"storage": storage}}, machine={"cpu_model": "cpu", "cpu_count": 2},
        environment={"python": "3.12.9", "tensorflow": "2.21.0"}, runs=tuple(runs),
        workload="flights", baseline="stock fit", seconds=60.0,
        comparison=Comparison(
            kind=ComparisonKind.END_TO_END, verdict=Verdict.FASTER, speedup=speedup,
            low=speedup - 0.01, high=speedup + 0.01, confidence=0.95, pairs=4,
            run_ids=tuple(made.id for made in runs), statement=f"faster: {speedup:.2f}x",
        ),
    )  # fmt: skip


FIRST_RESULTS = make_results(FIRST, "2026-11-20T09:00:00+00:00", 8.0, "disk")
SECOND_RESULTS = make_results(SECOND, "2026-11-21T10:00:00+00:00", 6.66, "memory")


def keep(store: Store, results: Results) -> None:
    recipe = {"workload": {"use": results.workload, "epochs": 2}}
    store.begin(results.id, results.created_at, results.recipe, results.recipe_sha256,
                {"recipe": recipe, "seed": 1, "more": "of a later version"})  # fmt: skip
    for made in results.runs:
        store.add_run(results.id, made)
    store.finish(results)
