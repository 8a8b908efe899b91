"""The search for the largest batch that fits, and what becomes of batches and learning rate."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.plugin_drive import FakeProbe, machine_with
from tfopt_training.fit_batch import FitBatch, largest_batch

from tfopt_core import DataPlan
from tfopt_core.errors import PluginError
from tfopt_core.plugins import PluginRefused

MIB = 2**20
BEGIN = 32


def linear(constant: float, each: float, there: float = 1e9) -> Callable[[int], int | None]:
    """A process of so many MiB, and so many more for each example; none is there beyond that."""

    def peak(size: int) -> int | None:
        taken = constant + each * size
        return None if taken > there else int(taken * MIB)

    return peak


@pytest.mark.parametrize(
    ("peak", "most", "least", "largest"),
    [
        (linear(600, 2), 4096, 640, 700),  # 2,000 MiB come to 700 examples
        (linear(600, 2), 100, 100, 100),
        (linear(600, 2), 16, 16, 16),
        (linear(600, 0), 4096, 4096, 4096),
        (linear(600, 100), 4096, 12, 14),  # less than the workload's own batch
        (linear(600, 2, there=1000), 4096, 160, 200),  # memory runs out before the limit
        (lambda size: (600 + size**2 // 100) * MIB, 4096, 288, 374),  # grows ever faster
    ],
)
def test_the_largest_size_that_was_seen_to_fit_is_found(peak, most, least, largest):
    tried = {}

    def noting(size: int) -> int | None:
        tried[size] = peak(size)
        return tried[size]

    size = largest_batch(noting, BEGIN, 2000 * MIB, most)
    assert least <= size <= largest
    assert (tried[size] or 0) <= 2000 * MIB
    assert len(tried) <= 8


def test_noise_between_small_batches_leads_to_no_great_jump() -> None:
    tried = []

    def peak(size: int) -> int:
        tried.append(size)
        return (600 + (10 if size == BEGIN else 0) + size) * MIB

    largest_batch(peak, BEGIN, 2000 * MIB, 2**20)
    assert all(later <= 8 * max(tried[: i + 1]) for i, later in enumerate(tried[1:]))


def test_no_batch_fits_is_refused_with_the_mend() -> None:
    with pytest.raises(PluginRefused, match="lower margin"):
        largest_batch(linear(600, 2, there=500), BEGIN, 2000 * MIB, 4096)


def probe(**changes: Any) -> FakeProbe:
    plan = DataPlan.from_arrays(np.zeros(1000)).batch(8)
    return FakeProbe(**{"plans": {"train": plan}, **changes})


def test_auto_is_resolved_and_the_tries_are_noted() -> None:
    asked = probe()
    resolved = FitBatch(margin=0.5).resolve(asked)
    assert resolved.batch_size == 40  # 0.1 of the memory, and 0.01 for each
    assert asked.notes == ["batches tried within 512 MiB: 8 (184 MiB), 16 (266 MiB), 40 (512 MiB)"]


def test_a_number_is_left_as_it_is() -> None:
    asked = probe()
    assert FitBatch(batch_size=96).resolve(asked).batch_size == 96
    assert asked.asked == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": machine_with((8, 0))}, "set batch_size to a number"),
        ({"steps_per_epoch": None}, "set batch_size"),
        ({"plans": {"train": DataPlan.from_arrays(np.zeros(4))}}, "does not see it"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_mend(changes, message):
    with pytest.raises(PluginRefused, match=message):
        FitBatch().resolve(probe(**changes))


@pytest.mark.tensorflow
def test_batches_and_learning_rate_are_those_of_the_rule(train: Callable[..., Any]) -> None:
    driven = train(FitBatch(batch_size=64, learning_rate="sqrt"))
    assert driven.model.optimizer.iterations == 2  # one step in each of two epochs
    assert float(driven.model.optimizer.learning_rate) == pytest.approx(0.02)


@pytest.mark.tensorflow
def test_batches_that_are_made_out_of_sight_are_refused(train: Callable[..., Any]) -> None:
    plan = DataPlan.from_arrays(np.zeros((8, 4)), np.zeros((8, 1))).apply(lambda d: d.batch(2))
    with pytest.raises((PluginError, PluginRefused), match="leave fit-batch out"):
        train(FitBatch(batch_size=4), plan=plan)
