"""The share of a model's weights that are frozen."""

from __future__ import annotations

import pytest
from support.lazy_modules import keras, layers

from tfopt_core.training.model.layers import frozen_share

pytestmark = pytest.mark.tensorflow


def test_weights_of_nested_frozen_layers_count_once_and_statistics_of_trained_ones_do_not():
    base = keras.Sequential([keras.Input((4,)), layers.Dense(10), layers.BatchNormalization()])
    base.trainable = False
    inputs = keras.Input((4,))
    hidden = layers.BatchNormalization()(base(inputs))
    model = keras.Model(inputs, layers.Dense(1)(hidden))
    # 50 + 40 frozen, 40 + 11 not
    assert frozen_share(model) == pytest.approx(90 / 141)
    base.trainable = True
    assert frozen_share(model) == 0
