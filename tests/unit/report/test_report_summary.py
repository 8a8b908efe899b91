"""The summary of a measurement."""

import io
import re

import pytest
from rich.color import Color
from support.hostile_results import hostile_results
from support.report_results import (
    make_attribution,
    make_comparison,
    make_fit,
    make_memory,
    make_quality,
    make_results,
    make_run,
    show,
)

from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.hooks.values import Effect, FoundTable
from tfopt_core.report.results.figures import Row, figure_groups
from tfopt_core.report.results.pages import render_summary
from tfopt_core.report.style.console import PALETTE, make_console
from tfopt_core.statistics.results import (
    ComparisonKind,
    FigureRatio,
    MemoryVerdict,
    QualityVerdict,
    Verdict,
)

LONG = "a-plugin-with-a-name-that-nobody-would-want-to-type-but-somebody-published-anyway"


def summary(width=80, **changes):
    return show(render_summary(make_results(**changes)), width)


def both(**changes):
    """Four runs of each side, with these changes to their fits."""
    return tuple(
        make_run(n, variant, fits=(make_fit(**changes),))
        for n, variant in enumerate(("baseline", "full") * 4)
    )


def rows(results):
    return {row.label: row for group in figure_groups(results) for row in group}


def with_effect(*effects):
    return tuple(make_run(n, "full", effects={"cache": effect}) for n, effect in enumerate(effects))


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("results", [make_results(), hostile_results(LONG)], ids=["plain", "long"])
def test_lines_fit_the_console_and_nothing_is_cut_off(results, width):
    text = show(render_summary(results), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)


def test_the_page_says_who_was_measured_and_against_what():
    text = summary()
    assert text.startswith("fashion-fast on fashion-mnist\n")
    assert "Intel Xeon Platinum 8481C CPU @ 2.70GHz, 2 CPUs, 8 GiB, no GPU" in text
    assert "TensorFlow 2.21.0, Keras 3.12.0" in text
    assert "stock fit on arrays in memory" in text
    assert "XLA off" in text
    assert "mean of 4 runs; the verdict on time comes from the pairs" in text
    machine = {"cpu_model": "EPYC", "cpu_count": 1, "gpus": [{"name": "H100"}] * 2}
    assert machine_in_words(machine) == "EPYC, 1 CPU, 2 x H100"
    assert machine_in_words({}) == "unknown CPU, no GPU"


def test_rows_are_means_of_the_runs_that_count():
    walls = (60.0, 120.0, 240.0)
    runs = tuple(make_run(n, wall_seconds=wall) for n, wall in enumerate(walls))
    failed = make_run(7, status="failed", wall_seconds=9999.0)
    stacked = make_run(8, "full", wall_seconds=60.0)
    row = rows(make_results(runs=(*runs, failed, stacked)))["wall time"]
    assert row == Row("wall time", "2 min", "1 min", "")


def test_a_gain_is_printed_only_where_its_own_interval_excludes_none():
    shown = {"ratio": 1.25, "low": 1.24, "high": 1.26, "pairs": 4}
    found = rows(make_results(ratios=(
        FigureRatio(figure="wall_seconds", **shown),
        FigureRatio(figure="examples_per_second", ratio=0.8, low=0.79, high=0.81, pairs=4),
        FigureRatio(figure="one_time_seconds", ratio=1.2, low=0.9, high=1.6, pairs=4),
        FigureRatio(figure="peak_rss_bytes", ratio=1 / 1.12, low=0.88, high=0.9, pairs=4),
    )))  # fmt: skip
    assert found["wall time"].gain == found["examples a second"].gain == "1.25x"
    assert found["step time"].gain == found["one-time cost"].gain == ""
    assert found["peak memory"].gain == "+12%"


def test_figures_are_shown_in_order_and_the_loss_without_penalties_where_it_differs():
    shown = [*rows(make_results())]
    assert "peak device memory" not in shown
    assert [label for label in shown if "loss" in label or "acc" in label] == [
        "loss", "accuracy", "val_loss", "val_accuracy",
    ]  # fmt: skip
    metrics = {"loss": 9.88, "val_loss": 9.9, "val_data_loss": 0.7}
    found = rows(make_results(runs=both(metrics=metrics)))
    assert found["val_data_loss"].baseline == "0.7000"


def test_a_figure_of_some_runs_says_of_how_many_and_claims_no_gain():
    reached = [make_run(n, fits=(make_fit(epochs_to_target=3),)) for n in range(2)]
    missed = [make_run(n, fits=(make_fit(),)) for n in (2, 3)]
    stacked = [make_run(4, "full", fits=(make_fit(epochs_to_target=2),))]
    found = rows(make_results(runs=(*reached, *missed, *stacked), target="val_accuracy >= 0.9"))
    assert found["epochs to target"] == Row("epochs to target", "3 (2 of 4 runs)", "2", "")


def test_a_target_that_no_run_reached_is_said():
    text = summary(target="val_accuracy at least 0.99")
    assert "val_accuracy at least 0.99" in text
    assert text.count("not reached") == 2


def test_models_of_different_size_are_told_apart():
    smaller = make_run(1, "full", fits=(make_fit(trainable_parameters=210_821),))
    found = rows(make_results(runs=(make_run(0), smaller)))
    assert found["trainable parameters"] == Row(
        "trainable parameters", "421,642", "210,821", "-50%"
    )


def test_projected_totals_are_called_projected_and_compare_no_wall_time():
    cut = [
        make_run(i, variant, fits=(make_fit(complete=False, projected_seconds=total),))
        for i, (variant, total) in enumerate([("baseline", 300.0), ("full", 200.0)])
    ]
    results = make_results(comparison=make_comparison(kind=ComparisonKind.STEADY), runs=tuple(cut))
    found = rows(results)
    assert found["wall time, projected"] == Row("wall time, projected", "5 min", "3 min 20 s", "")
    assert found["wall time of the cut runs"].gain == ""
    assert "wall time" not in found
    assert "the totals are projected" in " ".join(show(render_summary(results)).split())


def test_an_applied_plugin_shows_what_was_read_back_and_its_settings():
    text = summary()
    assert "✓  mixed-precision  applied: 12 of 13 layers compute in bfloat16" in text
    assert "policy = mixed_bfloat16" in text


def test_a_plugin_that_was_not_applied_is_named_with_the_reason_and_no_number():
    effect = Effect(False, "the pipeline draws anew each time")
    text = summary(
        runs=with_effect(effect, effect), resolved={"cache": {}},
        attribution=(make_attribution("cache", 1.21, "faster with it, 1.21x"),),
    )  # fmt: skip
    assert text.count("not applied: the pipeline draws anew each time") == 2
    assert "1.21" not in text


def test_a_plugin_that_is_applied_in_some_runs_says_so():
    text = summary(
        resolved={"cache": {}}, runs=with_effect(Effect(True, "kept"), Effect(False, "no room"))
    )
    assert "applied in 1 of 2 runs only; otherwise not applied: no room" in text


def test_failed_runs_are_named_with_their_causes_and_output():
    failed = [
        make_run(n, "full", status="failed", fits=(), error=error, output_path=f"run{n}/output.txt",
                 output_tail="noise\n" * 30 + f"Killed {n}")
        for n, error in ((8, "killed by SIGKILL"), (9, "killed by SIGKILL"), (10, "status 1"))
    ]  # fmt: skip
    text = summary(runs=(*make_results().runs, *failed))
    assert "3 of 11 runs failed" in text
    assert text.count("killed by SIGKILL (with the stack 2 times)") == 1
    assert "status 1 (with the stack)" in text
    assert "run8/output.txt" in text
    assert "Killed 8" in text
    assert text.count("noise") == 9


@pytest.mark.parametrize(
    ("verdict", "color"),
    [(Verdict.FASTER, "green"), (Verdict.SLOWER, "red"), (Verdict.WORSE, "red"),
     (Verdict.INCONCLUSIVE, "yellow")],
)  # fmt: skip
def test_the_verdict_is_bold_and_has_the_colour_of_its_outcome(verdict, color):
    console = make_console(width=80, file=io.StringIO(), environ={"TERM": "xterm-256color"})
    results = make_results(comparison=make_comparison(verdict=verdict, statement="so it is"))
    [style] = [
        part.style for part in console.render(render_summary(results)) if "so it is" in part.text
    ]
    assert style is not None
    assert style.bold
    assert style.color == Color.parse(PALETTE[color])


def test_a_certificate_that_decides_is_printed_once():
    certificate = "same training, certified: 100 steps replayed"
    quality = make_quality(
        verdict=QualityVerdict.CERTIFIED, certificate=certificate,
        statement=f"{certificate}; val_loss 1 -> 1",
        baseline=None, optimized=None, difference=None, low=None, high=None, tolerance=None,
    )  # fmt: skip
    assert summary(comparison=make_comparison(quality=quality)).count("same training") == 1


def test_the_quality_stands_beneath_the_verdict():
    quality = make_quality(certificate="same training, certified")
    text = summary(comparison=make_comparison(quality=quality))
    verdict, said, certificate = (
        text.index(part) for part in ("faster: 1.25x", "quality not worse", "same training")
    )
    assert verdict < said < certificate


def test_warnings_advice_and_what_was_kept_end_the_page():
    text = summary(
        warnings=("machine disturbed",), next_steps=("remove it",), saved_model="m.keras",
        interrupted=True,
    )  # fmt: skip
    assert "Warnings\n  - machine disturbed" in text
    assert "What to try next\n  - remove it" in text
    assert "interrupted: what had been measured until then is kept" in text
    assert "model saved to m.keras" in text
    assert text.endswith("8 runs in 15 min 31 s, 14.2 s of it set-up; all samples kept as "
                         "m-20260301-7f3a\n")  # fmt: skip


def test_a_measurement_without_runs_fits_or_finite_losses_has_a_page():
    nothing = make_comparison(
        verdict=Verdict.NONE, speedup=None, low=None, high=None, confidence=None, pairs=0,
        run_ids=(), quality=None, statement="no verdict: 0 complete pairs, and it takes 4",
    )  # fmt: skip
    text = summary(runs=(), comparison=nothing, machine={}, environment={},
                   baseline="", workload="")  # fmt: skip
    assert "no verdict: 0 complete pairs" in text
    assert "unknown: no run with the stack ended well" in text
    assert "wall time" in summary(runs=(make_run(0, fits=()), make_run(1, "full", fits=())))
    assert "nan" in summary(runs=both(metrics={"loss": float("nan")}))


HIGHER = make_memory(
    figure="peak_device_bytes", verdict=MemoryVerdict.HEAVIER,
    statement="peak device memory higher: 1.30x (98% interval 1.20 to 1.41, 4 pairs)",
)  # fmt: skip


def verdict_section(**changes):
    page = summary(comparison=make_comparison(**changes), width=120)
    section = page.partition("\nVerdict\n")[2].partition("\n\n")[0]
    return [line.strip() for line in section.splitlines() if line.strip()]


def test_verdicts_on_memory_stand_beneath_that_on_time():
    lines = verdict_section(memory=(make_memory(), HIGHER))
    assert lines[0].startswith("faster: 1.25x")
    assert lines[-2:] == [make_memory().statement, HIGHER.statement]


def test_with_memory_as_the_objective_its_verdict_on_the_device_comes_first():
    lines = verdict_section(memory=(make_memory(), HIGHER), objective="memory")
    assert lines[0] == HIGHER.statement
    assert lines[-2].startswith("faster: 1.25x")
    assert lines[-1] == make_memory().statement


def test_runs_that_ran_out_of_memory_are_called_so():
    failed = [
        make_run(n, status="failed", fits=(), error="raised ResourceExhaustedError: OOM",
                 out_of_memory=True)
        for n in range(2)
    ]  # fmt: skip
    fitted = (*failed, *(make_run(n, "full") for n in (2, 3)))
    page = summary(runs=fitted, comparison=make_comparison(verdict=Verdict.FITS, speedup=None))
    assert "2 of 4 runs ran out of memory" in page
    assert "out of memory: raised ResourceExhaustedError: OOM (baseline 2 times)" in page


def test_an_observer_has_its_sentence_and_its_tables_without_markup():
    table = FoundTable("Whose [b]time[/b]", ("part", "ms"), (("[red]input", "1.5"),))
    found = {"watch": Effect.applied_as("2 steps", table), "idle": Effect.not_applied("too short")}
    text = summary(observed=found)
    assert "Observed by watch, in an extra, untimed run" in text
    for said in ("2 steps", "Whose [b]time[/b]", "[red]input", "1.5", "not applied: too short"):
        assert said in text
