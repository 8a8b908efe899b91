"""Scripts that do not end well after the fits that are judged."""

import attrs
from support.measure_runs import make_fit, make_run

from tfopt_core.measurement.conclude import ends_in_words, without_early_ends

CAUSE = "train.py:40: raised ValueError: x and y must have same first dimension"


def of_script(variant="baseline", round_=0, fits=2, after_fits=None, judged=None, **changes):
    made = tuple(make_fit(name=f"fit {n + 1} of Sequential", **changes) for n in range(fits))
    run = make_run(variant, round_, 10.0)
    return attrs.evolve(run, fits=made, after_fits=after_fits, judged=judged)


def test_a_run_that_raised_after_all_fits_counts_and_is_said():
    runs = [of_script(), of_script("full", after_fits=CAUSE), of_script(after_fits=CAUSE)]
    assert without_early_ends(runs) == runs
    [said] = ends_in_words(runs)
    assert said.startswith(
        f"in 2 of 3 runs the script did not end well after fit 2 of Sequential: {CAUSE}"
    )


def test_a_run_that_raised_before_fits_that_others_made_failed():
    early = of_script("full", fits=1, after_fits=CAUSE)
    whole, failed = without_early_ends((of_script(), early))
    assert whole.ok
    assert failed.status == "failed"
    assert failed.error == f"{CAUSE} (after fit 1; other runs made 2)"
    assert list(ends_in_words((whole, failed))) == []


def test_where_one_fit_is_judged_those_behind_it_are_not_missed():
    early = of_script("full", fits=1, after_fits=CAUSE, judged=0)
    assert without_early_ends((of_script(judged=0), early))[1].ok


def test_trouble_with_plugins_only_is_said_to_be_theirs():
    runs = (of_script(), of_script("full", after_fits=CAUSE))
    assert "with plugins only" in " ".join(ends_in_words(runs))


def test_trouble_of_runs_that_were_cut_may_be_the_cut_s():
    runs = (of_script(after_fits=CAUSE, complete=False),)
    assert "cut short" in " ".join(ends_in_words(runs))


def test_nothing_is_said_of_scripts_that_end_well():
    assert list(ends_in_words((of_script(), of_script("full")))) == []
