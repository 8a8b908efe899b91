"""The loss without penalties: exact where it is told, and never guessed."""

from __future__ import annotations

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.penalties import add_data_loss, remove_data_loss, with_data_loss

pytestmark = pytest.mark.tensorflow

X = np.ones((4, 3), "float32")
Y = np.zeros((4, 1), "float32")


def spec():
    return (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1)))


def dense(**arguments):
    return keras.layers.Dense(1, kernel_initializer="ones", **arguments)


def functional():
    return keras.Sequential([keras.layers.Input((3,)), dense(kernel_regularizer="l2")])


def lazy():
    return keras.Sequential([dense(kernel_regularizer="l2")])


def active():
    return keras.Sequential([keras.layers.Input((3,)), dense(activity_regularizer="l1")])


def adds_its_own():
    class Own(keras.layers.Layer):
        def call(self, x):
            self.add_loss(0.5 * keras.ops.sum(keras.ops.ones_like(x[:1, :1])))
            return x

    return keras.Sequential([keras.layers.Input((3,)), Own(), dense()])


@pytest.mark.parametrize("make", [functional, lazy, active, adds_its_own])
def test_data_loss_is_the_loss_less_every_kind_of_penalty(make):
    model = make()
    assert add_data_loss(model, spec()) == "tracked"
    model.compile(loss="mse")
    logs = model.evaluate(X, Y, return_dict=True, verbose=0)
    assert logs["data_loss"] == pytest.approx(9.0)
    assert logs["loss"] > 9.001
    remove_data_loss(model)
    assert "data_loss" not in model.evaluate(X, Y, return_dict=True, verbose=0)


def test_a_model_without_penalties_pays_for_no_metric():
    model = keras.Sequential([keras.layers.Input((3,)), dense()])
    assert add_data_loss(model, spec()) == "none"
    assert "compute_loss" not in vars(model)
    assert with_data_loss({"loss": 2.0}, "none") == {"loss": 2.0, "data_loss": 2.0}


def test_of_a_model_that_cannot_be_called_no_data_loss_is_claimed():
    class OnlyTrains(keras.Model):
        pass

    assert add_data_loss(OnlyTrains(), spec()) == "unknown"
    assert with_data_loss({"loss": 2.0}, "unknown") == {"loss": 2.0}
