"""The workload `fashion-efficientnet`: its pictures, its classes, and the size of its model."""

import math

import numpy as np
import pytest
from tfopt_workloads import fashion_efficientnet

pytestmark = pytest.mark.tensorflow


def test_pictures_are_enlarged_to_three_equal_channels_up_to_255():
    workload = fashion_efficientnet.build(examples=40, held_out=30, classes=5, size=40)
    assert workload.train.source.count == 40
    assert workload.validation.source.count == 30
    pictures, labels = workload.train.source.value
    assert set(labels.tolist()) == {0, 1, 2, 3, 4}
    enlarged, _ = workload.train.stages[-1].function(pictures[0], labels[0])
    assert enlarged.shape == (40, 40, 3)
    assert np.ptp(np.asarray(enlarged), axis=-1).max() == 0
    assert 200 < float(np.max(enlarged)) <= 255


@pytest.mark.thorough
def test_its_model_has_the_parameters_of_the_report():
    model = fashion_efficientnet.build(classes=5).build_model()
    assert model.count_params() == 7_313_388
    assert sum(math.prod(weight.shape) for weight in model.trainable_weights) == 7_251_333
