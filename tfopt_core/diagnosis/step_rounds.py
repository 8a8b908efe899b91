"""Time the loops of a diagnosis in turns, since the machine's speed drifts; a first look repeats
less."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import monotonic
from typing import Any

import attrs

from tfopt_core.diagnosis.results import Round
from tfopt_core.diagnosis.step_loops import DataLoop, FitLoop, GraphLoop, first_batch, repeated
from tfopt_core.diagnosis.step_parts import (
    RecordingLimits,
    seconds_a_step,
    with_first_epoch,
    without_waits,
)
from tfopt_core.errors import describe
from tfopt_core.training.build import Built
from tfopt_core.training.messages import StepTrace
from tfopt_core.trials.epoch_ends import waiting_seconds

# Five rounds of about five seconds. Real epochs are timed to their end if that is soon.
ROUNDS = 5
REAL = RecordingLimits(seconds=1.5, at_most=3.5, longest=3.5)
CACHED = RecordingLimits(seconds=0.8, at_most=0.8, longest=3.5)
GRAPH = RecordingLimits(seconds=0.6, at_most=0.6, longest=3.5)
DATA = RecordingLimits(seconds=0.5, at_most=1.5)
# The first steps trace, open buffers and grow the allocator's memory; one slow step does as much.
WARM = RecordingLimits(seconds=0.0, at_most=0.3, calls=5, longest=6.0)
# Slow steps are made once each. Reading a batch that takes less than this share of a step cannot
# be told from the noise of one.
ONCE, INPUT_SHARE = RecordingLimits(seconds=0.0, at_most=0.0, calls=1), 0.03
# The longest wait for an epoch that fills a cache.
FILL = RecordingLimits(seconds=0.0, at_most=20.0)
# No round begins after this many seconds of measuring.
BUDGET_SECONDS = 23.0
# For a first contact two rounds suffice to choose what is then measured.
QUICK_ROUNDS, QUICK_SECONDS, QUICK_SHARE = 2, 6.0, 0.5

# A first look repeats its loops less often where so many seconds are over, or do not suffice for
# about as many steps as a look makes otherwise.
LOOK_SECONDS, USUAL_STEPS = 30.0, 24

Tell = Callable[[str], None]


def time_rounds(
    built: Built,
    tell: Tell,
    *,
    ends_at: float | None = None,
    step_seconds: float | None = None,
) -> TimedLoops:
    """Time `fit` over the real data and over one batch, steps in a graph, and the data alone.

    :param ends_at: when the time of a first look is over, by the monotonic clock. It makes fewer
        rounds: one, of a step in each loop, where the time is too short for more.
    :param step_seconds: what a step takes about, None if unknown.
    """
    quick, begun = ends_at is not None, monotonic()
    most, budget = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, BUDGET_SECONDS)
    tell("tracing the step")
    loops = TimedLoops(built, QUICK_SHARE if quick else 1.0)
    try:
        if ends_at is not None and ends_at - begun <= USUAL_STEPS * (step_seconds or 0.0):
            tell("steps are slow: going on with fewer repetitions")
            loops.once(step_seconds)
        else:
            loops.warm()
            begun = monotonic()
            for number in range(1, most + 1):
                tell(f"timing the loops, round {number} of {most}")
                loops.round()
                if monotonic() - begun > budget or (ends_at is not None and monotonic() > ends_at):
                    break
    finally:
        loops.fit.finish()
    return loops


class TimedLoops:
    """The loops of one diagnosis, their times, and what was seen while they ran.

    :ivar rounds: the times.
    :ivar batch: the batch that is repeated.
    :ivar traced_anew: the traces of the step while it was timed.
    :ivar warnings: about loops that could not be timed.
    """

    def __init__(self, built: Built, share: float) -> None:
        self.built = built
        self.data, self.steps = built.run.datasets["train"], built.run.steps_per_epoch
        # `share` shortens the usual time of a round
        self.real_limits, self.cached_limits, self.graph_limits, self.data_limits = (
            attrs.evolve(limit, seconds=limit.seconds * share, at_most=limit.at_most * share)
            for limit in (REAL, CACHED, GRAPH, DATA)
        )
        self.rounds: list[Round] = []
        self.warnings: list[str] = []
        self.traced_anew: list[StepTrace] = []
        self.batch: Any = None
        self.fit, self.reading = FitLoop(built), DataLoop(self.data)
        self._cached: Any = None
        self._graph: GraphLoop | None = None
        self._fill_seconds: float | None = None
        self._known_traces = 0

    def warm(self) -> None:
        """Make the loops, and the first steps of each."""
        # a cache that is read in part discards its elements, or locks its file
        if self.built.plans["train"].fills:
            self._fill()
        else:
            self.fit.run(self.data, WARM)
        self.batch = first_batch(self.built)
        self._make_cached()
        self._make_graph()
        self.reading.run(WARM)
        self._known_traces = len(self.fit.traces)

    def round(self) -> None:
        """Time each loop once. The traces of the step meanwhile are recorded."""
        real = self._real()
        self.traced_anew += self.fit.traces[self._known_traces :]
        if self._fill_seconds is not None:
            real = with_first_epoch(real, self._fill_seconds, self.built.run.epochs)
        cached = real
        if self._cached is not None:
            cached = seconds_a_step(self.fit.run(self._cached, self.cached_limits), self.steps)
        self._known_traces = len(self.fit.traces)
        graph = None if self._graph is None else median(self._graph.run(self.graph_limits))
        data = seconds_a_step(self.reading.run(self.data_limits), self.steps)
        self.rounds.append(Round(real=real, cached=cached, graph=graph, data=data))

    def _real(self) -> float:
        """Return the seconds of a step in `fit`, with what the end of an epoch waits in the mean
        in the place of what the few ends waited that were seen."""
        epochs, steps = self.fit.run(self.data, self.real_limits), self.steps
        left = without_waits(epochs)
        if left is not None and steps is not None:
            step = seconds_a_step(left, steps)
            if waits := waiting_seconds(self.built, steps * step, ("train",)):
                return step + waits / steps
        return seconds_a_step(epochs, steps)

    def once(self, real: float | None) -> None:
        """Make one round of slow steps, each loop timed once, and only where it tells something.

        Of a step of seconds, starting it is a negligible part. It waits for its input only where a
        batch that is read alone takes long.

        :param real: what a step takes, None if unknown.
        """
        self.warnings.append(
            "few steps were timed, and dispatch is not separated from compute: a step is slow"
        )
        if real is None:
            real = self._second_call(self.data)
        self.batch = first_batch(self.built)
        self.reading.run(ONCE)
        data = seconds_a_step(self.reading.run(self.data_limits), self.steps)
        cached = real
        if data > INPUT_SHARE * real and self.built.training.loop != "resident":
            repeats = repeated(self.batch, self.built.run.element_spec, self.steps)
            cached = min(real, self._second_call(repeats))
        self.rounds.append(Round(real=real, cached=cached, graph=None, data=data))

    def _second_call(self, data: Any) -> float:
        """Return the seconds of a step in the second call over these data; the first traces."""
        self.fit.run(data, ONCE)
        [epoch, *_] = epochs = self.fit.run(data, ONCE)
        if any(block.cold == "trace" for block in epoch.blocks):  # each shape is traced anew
            return epoch.blocks[-1].seconds / epoch.blocks[-1].steps
        return seconds_a_step(epochs, self.steps)

    def _make_cached(self) -> None:
        if self.built.training.loop == "resident":
            self.warnings.append(
                "a resident loop gathers its batches from memory in its own graph: that time "
                "counts as dispatch"
            )
            return
        self._cached = repeated(self.batch, self.built.run.element_spec, self.steps)
        self.fit.run(self._cached, WARM)

    def _make_graph(self) -> None:
        if self.built.run.replicas > 1:
            self.warnings.append(
                "dispatch is not separated from compute: there are several replicas"
            )
            return
        try:
            graph = GraphLoop(self.built, self.batch)
            graph.warm()
        except Exception as error:  # the step does not work in a graph loop; the training may
            self.warnings.append(
                f"dispatch is not separated from compute: a step in a graph loop {describe(error)}"
            )
            return
        self._graph = graph

    def _fill(self) -> None:
        epochs = self.fit.run(self.data, FILL)
        if epochs and epochs[0].complete:
            self._fill_seconds = seconds_a_step(epochs[:1], None)
        else:
            self.warnings.append(
                f"an epoch that fills the cache takes more than {FILL.at_most:.0f} s: the figures "
                "are those of such an epoch, and later epochs are faster"
            )
