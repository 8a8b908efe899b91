"""A run that is cut short, and what is said of it."""

import time
from time import perf_counter_ns

import attrs
import pytest
from support.in_process import build_here
from support.lazy_modules import keras
from support.small_workloads import line

from tfopt_core.errors import TfoptError
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.statistics.fit_figures import summarize
from tfopt_core.training.fit import train

STEPS, EPOCHS = 60, 7
BETWEEN_SECONDS = 0.05


@attrs.frozen(eq=False)
class Counts(Plugin):
    """Counts the epochs that it is told of."""

    epochs: list = attrs.field(factory=list)

    @hookimpl
    def on_epoch_end(self, epoch, logs):
        self.epochs.append((epoch, sorted(logs)))


def small_workload(**changes):
    """A line through points, which are the validation data too."""
    given = line(4 * STEPS)
    return attrs.evolve(given, **{"validation": given.train, **changes})


@pytest.mark.thorough
def test_a_cut_run_ends_within_an_epoch_and_validates_twice(tmp_path):
    counts = Counts()
    built = build_here(small_workload(), counts, folder=tmp_path, epochs=EPOCHS)
    outcome = train(
        built, perf_counter_ns(), lambda message: None,
        cuts_short=lambda blocks: sum(block.steps for block in blocks) > 4.5 * STEPS,
    )  # fmt: skip
    assert outcome.cut_short
    assert 4.5 * STEPS < outcome.steps < EPOCHS * STEPS
    assert outcome.epochs == len(counts.epochs) < EPOCHS
    assert len(outcome.validation_seconds) >= 2
    fit = summarize(outcome, None)
    assert not fit.complete
    assert fit.metrics == {}
    # the whole is longer than what was made of it, and no plugin saw the epoch that was cut
    assert fit.projected_seconds > sum(block.seconds for block in fit.blocks)
    assert [epoch for epoch, _ in counts.epochs] == list(range(outcome.epochs))


@pytest.mark.thorough
@pytest.mark.parametrize("validation", [True, False])
def test_what_callbacks_do_between_epochs_is_no_step_and_no_validation(tmp_path, validation):
    class Slow(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            time.sleep(BETWEEN_SECONDS)

    given = {} if validation else {"validation": None}
    workload = small_workload(callbacks=lambda: [Slow()], **given)
    built = build_here(workload, folder=tmp_path, epochs=3)
    outcome = train(built, perf_counter_ns(), lambda message: None)
    assert len(outcome.edge_seconds) == 2
    assert min(outcome.edge_seconds) >= BETWEEN_SECONDS
    timed = sum(block.seconds for block in outcome.blocks) + sum(outcome.validation_seconds)
    bound = outcome.wall_seconds - BETWEEN_SECONDS  # the last epoch's, after which none begins
    assert outcome.setup_seconds + timed + sum(outcome.edge_seconds) <= bound


def test_a_cut_run_that_diverged_is_no_sample(tmp_path):
    built = build_here(
        small_workload(optimizer=lambda: keras.optimizers.SGD(1e30)), folder=tmp_path, epochs=2
    )
    with pytest.raises(TfoptError, match=r'"loss" was .* after epoch 1'):
        train(
            built,
            perf_counter_ns(),
            lambda message: None,
            cuts_short=lambda blocks: sum(block.steps for block in blocks) > 10,
        )
