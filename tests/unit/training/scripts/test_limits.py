"""How a script's fits are cut short."""

from tfopt_core.recipe import WorkloadSpec
from tfopt_core.training.scripts.limits import CutShort, cut_in_words, cut_short


def spec(**limits: int) -> WorkloadSpec:
    return WorkloadSpec(script="train.py", **limits)


def test_nothing_is_cut_where_nothing_is_asked_for():
    assert cut_short(spec(), 100) is None
    assert cut_in_words(spec()) is None


def test_epochs_alone_leave_the_steps():
    assert cut_short(spec(max_epochs=3), 100) == CutShort(3, None)


def test_steps_are_whole_epochs_where_they_fit():
    assert cut_short(spec(max_steps=50), 20) == CutShort(2, None)


def test_steps_within_an_epoch_are_one_shorter_epoch():
    assert cut_short(spec(max_steps=50), 80) == CutShort(1, 50, planned_steps=80)


def test_steps_of_an_unknown_epoch_are_one_epoch_of_so_many():
    assert cut_short(spec(max_steps=50), None) == CutShort(1, 50)


def test_the_tighter_limit_counts():
    assert cut_short(spec(max_steps=50, max_epochs=1), 20) == CutShort(1, None)


def test_both_limits_are_said():
    words = cut_in_words(spec(max_epochs=1, max_steps=50))
    assert words == "cut short for a quick look: at most 1 epoch and 50 steps of each fit"
