"""How a script's fits are cut short, the history that it gets, and the metric that judges it."""

from types import SimpleNamespace

import pytest

from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.scripts.call import lengthen
from tfopt_core.scripts.limits import CutShort, cut_in_words, cut_short
from tfopt_core.training.workload import judged_metric


@pytest.mark.parametrize(
    ("limits", "steps_per_epoch", "cut"),
    [
        ({}, 100, None),
        ({"max_epochs": 3}, 100, CutShort(3)),
        ({"max_steps": 50}, 20, CutShort(2)),  # whole epochs
        ({"max_steps": 50}, 80, CutShort(1, 50, planned_steps=80)),
        ({"max_steps": 50}, None, CutShort(1, 50)),
        ({"max_steps": 50, "max_epochs": 1}, 20, CutShort(1)),
    ],
)
def test_steps_are_whole_epochs_where_they_fit(limits, steps_per_epoch, cut):
    assert cut_short(WorkloadSpec(script="train.py", **limits), steps_per_epoch) == cut


def test_both_limits_are_said():
    words = cut_in_words(WorkloadSpec(script="train.py", max_epochs=1, max_steps=50))
    assert words == "cut short for a quick look: at most 1 epoch and 50 steps of each fit"
    assert cut_in_words(WorkloadSpec(script="train.py")) is None


def call(epochs=6, often=1, cut=None, last_epoch=None):
    return SimpleNamespace(
        arguments={"epochs": epochs}, cut=cut, last_epoch=last_epoch or epochs,
        validates_after=lambda epoch: (epoch + 1) % often == 0,
    )  # fmt: skip


def history(epochs=(0, 1), **metrics):
    lists = {name: list(values) for name, values in metrics.items()}
    params = {"epochs": len(epochs), "steps": 10, "verbose": 0}
    return SimpleNamespace(epoch=list(epochs), history=lists, params=params)


def test_the_last_values_are_repeated_up_to_the_planned_epochs():
    seen = history(loss=[3.0, 2.0], val_loss=[4.0, 5.0])
    assert lengthen(seen, call(), stopped=True) == 4
    assert seen.epoch == [0, 1, 2, 3, 4, 5]
    assert seen.history == {"loss": [3.0, *[2.0] * 5], "val_loss": [4.0, *[5.0] * 5]}
    assert seen.params == {"epochs": 6, "steps": 10, "verbose": 0}


def test_a_history_that_is_as_long_as_planned_stays():
    seen = history(range(6), loss=range(6))
    assert lengthen(seen, call(), stopped=True) == 0
    assert seen.history == {"loss": list(range(6))}


def test_what_a_callback_has_ended_stays():
    seen = history(loss=[3.0, 2.0])
    assert lengthen(seen, call(), stopped=False) == 0
    assert len(seen.history["loss"]) == 2
    limited = call(cut=CutShort(4), last_epoch=4)
    assert lengthen(seen, limited, stopped=False) == 0


def test_a_fit_that_trained_all_that_a_limit_left_is_as_long_as_planned():
    limited = call(epochs=15, cut=CutShort(1, 100, planned_steps=1875), last_epoch=1)
    seen = history((0,), loss=[3.0])
    assert lengthen(seen, limited, stopped=False) == 14
    assert len(seen.history["loss"]) == len(seen.epoch) == 15
    assert (seen.params["epochs"], seen.params["steps"]) == (15, 1875)


def test_a_fit_that_goes_on_from_an_epoch_is_counted_from_there():
    seen = history((3, 4), loss=[3.0, 2.0])
    lengthen(seen, call(epochs=7), stopped=True)
    assert seen.epoch == [3, 4, 5, 6]


def test_validations_come_as_often_as_they_were_planned():
    seen = history(range(3), loss=[3.0] * 3, val_loss=[4.0])  # after the second epoch
    lengthen(seen, call(epochs=7, often=2), stopped=True)
    assert seen.history["val_loss"] == [4.0] * 3
    assert len(seen.history["loss"]) == 7


@pytest.mark.parametrize(("metrics", "found"), [({"loss": 9.0}, [9.0, 9.0]), (None, None)])
def test_a_fit_that_was_cut_before_its_first_validation_makes_one(metrics, found):
    seen = history((0,), loss=[3.0])
    lengthen(seen, call(often=3), stopped=True, validate=lambda: metrics)
    assert seen.history.get("val_loss") == found


def test_another_callback_s_parameters_stay_its_own():
    seen = history(loss=[3.0, 2.0])
    shared = seen.params
    lengthen(seen, call(), stopped=True)
    assert shared["epochs"] == 2


@pytest.mark.parametrize(
    ("metrics", "judged"),
    [
        (["accuracy", "loss", "val_accuracy", "val_loss"], "val_accuracy"),
        (["loss", "val_loss"], "val_loss"),
        (["kl_loss", "total_loss", "val_kl_loss", "val_total_loss"], "val_total_loss"),
        (["accuracy", "loss"], "accuracy"),
        (["a_loss", "b_loss", "loss"], "loss"),
        (["boundary", "residual"], ""),
        ([], "loss"),
    ],
)  # fmt: skip
def test_a_script_is_judged_by_its_accuracy_else_by_the_whole_loss(metrics, judged):
    assert judged_metric(metrics) == judged
