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


ONE_EPOCH = {"epochs": 15, "cut": CutShort(1, 100, planned_steps=1875), "last_epoch": 1}


@pytest.mark.parametrize(
    ("epochs", "metrics", "planned", "stopped", "lists"),
    [
        # the last values are repeated up to the planned epochs
        ((0, 1), {"loss": [3, 2], "val_loss": [4, 5]}, {}, True,
         {"loss": [3, *[2] * 5], "val_loss": [4, *[5] * 5]}),
        ((3, 4), {"loss": [3, 2]}, {"epochs": 7}, True, {"loss": [3, 2, 2, 2]}),
        # validations come as often as they were planned, here after the second epoch
        (range(3), {"loss": [3] * 3, "val_loss": [4]}, {"epochs": 7, "often": 2}, True,
         {"loss": [3] * 7, "val_loss": [4] * 3}),
        # all that a limit left was trained
        ((0,), {"loss": [3]}, ONE_EPOCH, False, {"loss": [3] * 15}),
        # as long as planned, or ended by a callback
        (range(6), {"loss": range(6)}, {}, True, {"loss": [*range(6)]}),
        ((0, 1), {"loss": [3, 2]}, {}, False, {"loss": [3, 2]}),
        ((0, 1), {"loss": [3, 2]}, {"cut": CutShort(4), "last_epoch": 4}, False, {"loss": [3, 2]}),
    ],
)  # fmt: skip
def test_a_history_is_lengthened_to_what_was_planned(epochs, metrics, planned, stopped, lists):
    seen, fit = history(epochs, **metrics), call(**planned)
    added = len(lists["loss"]) - len(epochs)
    assert lengthen(seen, fit, stopped=stopped) == added
    assert seen.history == lists
    assert seen.epoch == [epochs[0] + number for number in range(len(lists["loss"]))]
    expected = {"epochs": len(epochs), "steps": 10, "verbose": 0}
    if added:
        expected["epochs"] = fit.arguments["epochs"]
        expected["steps"] = 1875 if fit.cut else 10
    assert seen.params == expected


@pytest.mark.parametrize(("metrics", "found"), [({"loss": 9.0}, [9.0, 9.0]), (None, None)])
def test_a_fit_that_was_cut_before_its_first_validation_makes_one(metrics, found):
    seen = history((0,), loss=[3.0])
    lengthen(seen, call(often=3), stopped=True, validate=lambda: metrics)
    assert seen.history.get("val_loss") == found


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
