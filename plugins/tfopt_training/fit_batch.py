"""Fit batch: the largest batch whose training fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.plugins import (
    DataPlan,
    Effect,
    Plugin,
    PluginRefused,
    Probe,
    RunContext,
    Split,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import (
    RateRule,
    number_or,
    rate_factor,
    size_in_words,
    with_batch_size,
    with_scaled_rate,
)

# A guess from the memory of small batches is tried in steps of at most this factor.
LARGEST_JUMP = 8
# The search ends once a larger batch could be larger by at most this part ...
NEAR = 1 / 8
# ... or after so many guesses: each starts a process and trains in it.
MOST_GUESSES = 4
MEND = "leave fit-batch out, and set the batch size where the batches are made"


def largest_batch(peak: Callable[[int], int | None], begin: int, limit: int, most: int) -> int:
    """Return the largest batch that was tried and whose peak memory is within the limit.

    Two small batches tell how much memory an example takes; larger ones are guessed from that and
    tried.

    :param peak: trains with batches of a size; returns the peak memory in bytes, None where it ran
        out.
    :param begin: the first size to try; halved as long as it does not fit.
    :param limit: in bytes.
    :param most: the largest size.
    :raises PluginRefused: if not even one example fits.
    """
    fitting: dict[int, int] = {}
    over: dict[int, int] = {}
    bound = most + 1

    def fits(size: int) -> bool:
        nonlocal bound
        taken = peak(size)
        if taken is None or taken > limit:
            bound = min(bound, size)
            if taken is not None:
                over[size] = taken
            return False
        fitting[size] = taken
        return True

    size = min(begin, most)
    while not fits(size):
        if size == 1:
            raise PluginRefused(
                f"not even a batch of one example trains within {size_in_words(limit)} of memory; "
                "free memory, or lower margin"
            )
        size //= 2
    if 2 * size < bound:
        fits(2 * size)
    for _ in range(MOST_GUESSES):
        largest = max(fitting)
        guess = min(_guess(fitting, over, limit), LARGEST_JUMP * largest)
        if guess >= bound:  # no line, since memory ran out or the maximum is near
            guess = most if bound > most else (largest + bound) // 2
        # the sizes of a recipe stay multiples of its own
        guess = guess // begin * begin if guess > begin and guess < most else guess
        if guess <= largest * (1 + NEAR) and guess < most:
            break
        if guess <= largest:
            break
        fits(guess)
    return max(fitting)


def _guess(fitting: dict[int, int], over: dict[int, int], limit: int) -> int:
    """Return the size whose memory would come to the limit, as a line through two sizes says: the
    largest that fits, and the smallest that does not or the second largest that does."""
    large, *smaller = sorted(fitting, reverse=True)
    other = min(over, default=smaller[0] if smaller else None)
    if other is None:
        return LARGEST_JUMP * large
    slope = (fitting[large] - {**fitting, **over}[other]) / (large - other)
    return large + int((limit - fitting[large]) / slope) if slope > 0 else LARGEST_JUMP * large


@plugin
class FitBatch(Plugin):
    """Trains with the largest batch that fits into memory, up to a maximum.

    What it does: trains some steps with the workload's batch size and with twice that, each in a
    process of its own, extrapolates their peak memory, and tries what should fit. These processes
    are the first that the kernel ends where memory runs out, which is then a bound. Batches get
    that size, and the learning rate follows a rule that is named in the output.

    Why it helps: fewer, larger steps, where a processor is not kept busy by small ones.

    When it does not: on few cores, which small batches keep busy already. A larger batch is another
    training: fewer updates, that may need more epochs to the same quality, so it is judged by the
    time to a target. The search takes some seconds for each size, printed as set-up; the result
    depends on the memory that is free then. Peak memory of the process only: with GPUs set
    batch_size yourself.

    Mixes with: gradient-accumulation, mixed-precision; lr-schedule and batch, which stand behind
    it.

    Reference: Goyal et al. (linear), https://arxiv.org/abs/1706.02677; Krizhevsky (sqrt),
    https://arxiv.org/abs/1404.5997
    """

    targets = ("compute", "dispatch", "memory")
    # what fills a batch up does so to the size that it finds
    before = ("batch", "lr-schedule")
    equivalence = "changes"  # fewer updates, each over more examples

    batch_size: int | Literal["auto"] = number_or(
        "auto", "The global batch size; auto finds the largest that fits."
    )
    max: int = setting(
        default=1024,
        validator=validators.ge(1),
        help="The largest batch size that auto tries.",
    )
    margin: float = setting(
        default=0.1,
        validator=[validators.ge(0), validators.lt(1)],
        help="The share of the available memory that auto leaves free, below 1.",
    )
    learning_rate: RateRule = setting(
        default="sqrt",
        help="The learning rate for a batch n times as large: keep leaves it, linear multiplies "
        "it by n, sqrt by the root of n.",
    )

    def resolve(self, probe: Probe) -> FitBatch:
        """Find the batch size, where it is auto.

        :raises PluginRefused: where it cannot be found.
        """
        if self.batch_size != "auto":
            return self
        if probe.machine.gpus:
            raise PluginRefused(
                "the memory of GPUs is not looked at; set batch_size to a number that fits"
            )
        plan = probe.plan("train")
        begin = plan.batch_size
        if plan.batching is None or begin is None:
            raise PluginRefused(
                "the workload's batches are made where tfopt does not see it, so their size cannot "
                f"be changed; {MEND}"
            )
        if plan.examples is None or probe.steps_per_epoch is None:
            raise PluginRefused(
                "the number of examples is unknown, so trial runs would not end; set batch_size, "
                "or tell it (tf.data.experimental.assert_cardinality)"
            )
        limit = int(probe.available_memory_bytes() * (1 - self.margin))

        tried = []

        def peak(size: int) -> int | None:
            taken = probe.peak_memory_bytes(attrs.evolve(self, batch_size=size))
            words = "out of memory" if taken is None else size_in_words(taken)
            tried.append(f"{size:,} ({words})")
            return taken

        size = largest_batch(peak, begin, limit, min(self.max, plan.examples))
        probe.note(f"batches tried within {size_in_words(limit)}: {', '.join(tried)}")
        return attrs.evolve(self, batch_size=size)

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Give the training batches their size.

        :raises PluginRefused: for batches whose size cannot be changed.
        """
        if split != "train":
            return plan
        assert self.batch_size != "auto"
        run.state_of(self)["before"] = plan.batch_size
        size = self.batch_size
        return plan if plan.batch_size == size else with_batch_size(plan, lambda _: size, MEND)

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Scale the learning rate by the rule.

        :raises PluginRefused: for a schedule whose rates cannot be scaled.
        """
        return with_scaled_rate(options, self.learning_rate, self._ratio(run))

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the size of the batches that were trained on back, and the learning rate."""
        size, before = run.batch_size, run.state_of(self)["before"]
        if size != self.batch_size:
            return Effect.not_applied(f"the batches hold {size} examples")
        if size == before:
            return Effect.not_applied(
                f"the workload's batches of {size:,} are the largest that fit, or that max allows"
            )
        factor = rate_factor(self.learning_rate, self._ratio(run))
        rate = "kept" if factor == 1 else f"x {factor:.3g} ({self.learning_rate})"
        return Effect.applied_as(f"batches of {size:,} instead of {before:,}, learning rate {rate}")

    def _ratio(self, run: RunContext) -> float:
        """Return how many times as large the batches are."""
        assert self.batch_size != "auto"
        return float(self.batch_size / run.state_of(self)["before"])

    def by_hand(self) -> str:
        """The same in plain code."""
        size = "largest" if isinstance(self.batch_size, str) else self.batch_size
        factor = {"sqrt": "** 0.5", "linear": ""}.get(self.learning_rate)
        lines = [f"train = train.batch({size})  # in the place of batch_size"]
        if factor is not None:
            lines.append(f"optimizer.learning_rate *= ({size} / batch_size) {factor}".rstrip())
        return "\n".join(lines)
