"""Which shuffles of a script nothing may replace."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.lazy_modules import tf

from tfopt_core.training.input.shuffle_draws import ShuffleDraws

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def draws() -> Iterator[ShuffleDraws]:
    counted = ShuffleDraws()
    counted.install()
    yield counted
    counted.remove()


def test_a_shuffle_that_a_fit_repeated_stays_where_it_is_in_every_later_fit(draws):
    shuffled = tf.data.Dataset.from_tensor_slices(np.arange(8)).shuffle(8)
    once, repeated = shuffled.batch(4), shuffled.repeat().batch(4)
    draws.note_fit(once)
    assert draws.begun(once) == draws.begun(repeated) == frozenset()
    draws.note_fit(repeated)
    assert draws.begun(once) == draws.begun(repeated) == {shuffled}


def test_what_is_read_without_end_to_time_it_has_no_shuffle_stay(draws):
    data = tf.data.Dataset.from_tensor_slices(np.arange(8)).shuffle(8).batch(4)
    next(iter(data.repeat()))
    assert draws.begun(data) == frozenset()
