"""The validation loss without the penalties on weights."""

from __future__ import annotations

import numpy as np
import pytest
from support.lazy_modules import keras

from tfopt_core.training.fit_monitor import with_data_loss

pytestmark = pytest.mark.tensorflow


def model_of(*names, **arguments):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones", **arguments)]
    )
    model.layers[0].trainable = "frozen" not in names
    return model


@pytest.mark.parametrize(
    ("model", "data_loss"),
    [
        (lambda: model_of(), 9.0),
        (lambda: model_of(kernel_regularizer=keras.regularizers.L2(0.5)), 7.5),
        (lambda: model_of("frozen", kernel_regularizer="l2"), 9.0),
        (lambda: model_of(activity_regularizer="l1"), 9.0),  # it is a loss of the data
    ],
)
def test_the_penalties_on_trained_weights_are_taken_off(model, data_loss):
    metrics = with_data_loss({"loss": 10.0, "val_loss": 9.0}, model())
    assert metrics == {"loss": 10.0, "val_loss": 9.0, "val_data_loss": pytest.approx(data_loss)}


def test_what_is_taken_off_is_what_keras_adds():
    model = model_of(kernel_regularizer="l2")
    model.compile("sgd", "mse")
    logs = model.evaluate(np.ones((1, 3)), np.zeros((1, 1)), return_dict=True, verbose=0)
    metrics = with_data_loss({"val_loss": logs["loss"]}, model)
    assert metrics["val_data_loss"] == pytest.approx(9.0)


def test_without_a_validation_there_is_none():
    assert with_data_loss({"loss": 1.0}, None) == {"loss": 1.0}
