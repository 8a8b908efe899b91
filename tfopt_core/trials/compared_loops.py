"""Compare other loops with Keras' own within one training, for a first contact."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import attrs

from tfopt_core.errors import describe
from tfopt_core.hooks.diagnosis import ComparedLoop
from tfopt_core.records.in_run import Adapted
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.fit_callbacks import StepTimer
from tfopt_core.training.loops.exact_loops import Offer
from tfopt_core.training.loops.switching import switching_loop
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.training.timed_function import TimedFunction
from tfopt_core.trials.explore import Explorer

# Comparing takes seconds; if steps are long, nothing is compared.
SECONDS, AT_MOST = 5.0, 7.0
ENDLESS_EPOCHS = 10**6
TIME_OVER = f"the {AT_MOST:.0f} s for comparing were over before"


@attrs.frozen
class Compared:
    """The result of comparing loops, in words and as plugins read it.

    `complete` is False if the fit failed meanwhile; the loops that are missing are then unknown.
    """

    adapted: Adapted
    loops: tuple[ComparedLoop, ...]
    complete: bool = True


def compare_loops(built: Built, tell: Callable[[str], None]) -> Compared | None:
    """Train on for some seconds while other loops take turns with Keras' own. Return the results.

    :param built: the diagnosed training, which is trained further; it must be a script's fit.
    :returns: None if nothing can be compared.
    """
    if not isinstance(built.workload, FitWorkload):
        return None
    call = built.workload.call
    tell("comparing loops within one training")
    explorers: list[Explorer] = []

    def adapt(offer: Offer, sync: Callable[[], None] | None) -> Explorer:
        seed = built.job.seed
        explorers.append(Explorer(offer, sync, seed, budget_seconds=SECONDS, steps_first=True))
        return explorers[-1]

    # endless, since this training is thrown away
    built = attrs.evolve(built, run=attrs.evolve(built.run, epochs=ENDLESS_EPOCHS))
    timed = TimedFunction(built)
    timed.loop = switching_loop(built, timed.clock, adapt, lambda message: None)
    if timed.loop is None:
        return Compared(explorers[0].adapted(), ()) if explorers else None
    timed.install()
    timed.begin_fit()
    timer, failure = StepTimer(timed, lambda message: None), ""
    try:
        call.make(
            [_until(lambda: explorers[0].kept is not None), keras_callback(timer)], {},
            epochs=ENDLESS_EPOCHS, initial_epoch=0, validation_freq=ENDLESS_EPOCHS, verbose=0,
        )  # fmt: skip
    except Exception as error:
        # the results so far still count, and the report names the failure
        failure = f"the fit in which loops were compared ended early: it {describe(error)}"
    finally:
        timed.uninstall()
    explorer = explorers[0]
    loops = tuple(
        ComparedLoop(steps=loop.steps, xla=loop.jit_compile, low=result.low, high=result.high)
        for loop, result in explorer.results.items()
        if result.low is not None and result.high is not None
    )
    adapted = explorer.adapted(TIME_OVER)
    if failure:
        adapted = attrs.evolve(adapted, left_out=(*adapted.left_out, failure))
    return Compared(adapted, loops, complete=not failure)


def _until(settled: Callable[[], bool]) -> Any:
    import keras

    begun = monotonic()

    class Until(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if settled() or monotonic() - begun > AT_MOST:
                self.model.stop_training = True

    return Until()
