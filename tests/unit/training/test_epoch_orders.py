"""The orders of passes that a resident loop takes."""

import pytest

from tfopt_core.data import Shuffle
from tfopt_core.scripts import fit_data
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


@pytest.mark.parametrize("shuffle", [True, "batch"])
def test_the_order_of_keras_is_read_once_under_a_seed_and_drawn_anew_without_one(shuffle):
    import tensorflow as tf
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    indices = tf.range(40, dtype=tf.int32)
    try:
        for seed, constant in ((3, True), (None, False)):
            tf.random.set_seed(seed)
            own = ArrayDataAdapter(indices, shuffle=shuffle, batch_size=8).get_tf_dataset()
            tf.random.set_seed(seed)
            passes = fit_data._passes(40, shuffle, 8)
            orders = {tuple(next(iter(passes)).numpy().tolist()) for _ in range(3)}
            assert all(sorted(order) == list(range(40)) for order in orders)
            assert len(orders) == (1 if constant else 3)
            if constant:
                assert list(tf.concat(list(own), 0).numpy()) == [*orders.pop()]
    finally:
        tf.random.set_seed(3)
