"""The orders of passes that a resident loop takes."""

import pytest

from tfopt_core.data import Shuffle
from tfopt_core.training.loops import resident_data
from tfopt_core.training.loops.resident_data import EpochOrders

pytest.importorskip("tensorflow")


def test_orders_are_not_begun_anew_in_each_pass_while_steps_are_timed(monkeypatch):
    begun = []
    orders = resident_data._orders
    monkeypatch.setattr(
        resident_data, "_orders", lambda *given: begun.append(given[2:]) or orders(*given)
    )
    timed = EpochOrders(8, (Shuffle(seed=1),), drawn=lambda: 3)
    passes = [timed.next_epoch().numpy().tolist() for _ in range(4)]
    assert begun == [(2, 2)]
    assert len({tuple(one) for one in passes}) == 4
