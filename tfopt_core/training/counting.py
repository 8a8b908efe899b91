"""Count what a fit does, apart from the loop that does it."""

from __future__ import annotations

import hashlib
from typing import Any

import attrs

from tfopt_core.records.fit import TrainingCounts
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.loss_scaling import overflow_steps
from tfopt_core.training.optimizers import optimizers_of


@attrs.define(eq=False)
class TrainingCounter:
    """Counts updates and examples of a fit at the ends of its epochs and validations.

    It reads the optimizers' own numbers of iterations, and the examples that Keras' mean of the
    loss has counted, which takes no time in a step. Its methods are those of a callback that is
    called before the others.
    """

    built: Built
    _optimizers: list[Any] = attrs.field(factory=list)
    _before: list[int] = attrs.field(factory=list)
    _updates: list[list[int]] = attrs.field(factory=list)
    _examples: list[int] = attrs.field(factory=list)
    _validation_examples: list[int] = attrs.field(factory=list)
    _counted: bool = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Note the numbers before the training."""
        run = self.built.run
        if run.replicas > 1 or run.cluster is not None:
            return  # their optimizers count elsewhere
        self._optimizers = optimizers_of(self.built.model)
        self._before = [_iterations(one) for one in self._optimizers]
        self._updates = [[] for _ in self._optimizers]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note that the epoch's examples are not counted yet."""
        self._counted = False

    def on_test_begin(self, logs: Any = None) -> None:
        """Count the examples of the epoch, before a validation counts its own."""
        self._count_examples()

    def on_test_end(self, logs: Any = None) -> None:
        """Count the examples of a validation."""
        self._validation_examples += _examples_of_loss(self.built)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count the updates of the epoch."""
        self._count_examples()
        now = [_iterations(one) for one in self._optimizers]
        for updates, before, after in zip(self._updates, self._before, now, strict=True):
            updates.append(after - before)
        self._before = now

    def counts(self) -> TrainingCounts:
        """Return what was counted."""
        return TrainingCounts(
            updates=tuple(map(tuple, self._updates)),
            examples=tuple(self._examples),
            validation_examples=tuple(self._validation_examples),
            learning_rate=_learning_rate(self.built.model.optimizer),
        )

    def _count_examples(self) -> None:
        if not self._counted:
            self._examples += _examples_of_loss(self.built)
        self._counted = True


@attrs.define(eq=False)
class BatchCounter:
    """Notes the indices that callbacks which act on batches are given."""

    calls: int = 0
    _digest: Any = attrs.field(factory=lambda: hashlib.blake2b(digest_size=8))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the index of a batch."""
        self.calls += 1
        self._digest.update(f"{batch},".encode())

    @property
    def indices(self) -> str:
        """A digest of all indices."""
        digest: str = self._digest.hexdigest()
        return digest


def batch_counter(built: Built) -> BatchCounter | None:
    """Return a counter of batches if a callback acts on them; else it would slow the steps."""
    return BatchCounter() if batch_callbacks(built.training.callbacks) else None


def _iterations(optimizer: Any) -> int:
    return int(optimizer.iterations) + (overflow_steps(optimizer) or 0)


def _examples_of_loss(built: Built) -> list[int]:
    """Return the number of examples that the mean of the loss holds; none if that is unknown."""
    import keras

    if built.run.replicas > 1 or any(_fills_up(plan) for plan in built.plans.values()):
        return []  # each replica counts its own; examples that fill a batch up are counted too
    means = (m for m in built.model.metrics if m.name == "loss" and hasattr(m, "count"))
    mean = next(means, None)
    return [] if mean is None else [round(float(keras.ops.convert_to_numpy(mean.count)))]


def _fills_up(plan: Any) -> bool:
    return any(hasattr(getattr(stage, "function", None), "filled_to") for stage in plan.stages)


def _learning_rate(optimizer: Any) -> float | None:
    import keras

    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(optimizer, "learning_rate", None)
    return None if rate is None else float(keras.ops.convert_to_numpy(rate))
