"""The workload `clipart-transfer`: which classes, the trained base, what is frozen."""

import numpy as np
import pytest
from support.lazy_modules import tf
from tfopt_workloads import clipart_transfer

pytestmark = pytest.mark.tensorflow


def test_the_head_is_trained_on_other_classes_than_the_base():
    workload = clipart_transfer.build()
    names = {path.split("/")[-2] for path in workload.train.source.value[0].tolist()}
    assert names == {"recreation", "shapes", "signs_and_symbols", "transportation"}
    assert set(workload.validation.source.value[1].tolist()) == {0, 1, 2, 3}
    assert clipart_transfer.build(examples=8).train.source.count == 8


@pytest.mark.thorough
def test_its_base_is_frozen_and_tells_pictures_apart():
    workload = clipart_transfer.build(examples=8)
    model = workload.build_model()
    assert [layer.name for layer in model.layers if layer.trainable_weights] == ["logits"]
    base = model.get_layer("base")
    assert base.count_params() == 410_208
    assert all(np.isfinite(weight).all() for weight in base.get_weights())
    paths, labels = workload.train.source.value
    decode = workload.train.stages[-1].function
    pictures = tf.stack([decode(path, label)[0] for path, label in zip(paths, labels, strict=True)])
    features = np.asarray(base(1 - 2 * pictures, training=False))
    assert features.std(axis=0).max() > 0.1


@pytest.mark.thorough
def test_the_base_can_be_trained_too():
    model = clipart_transfer.build(examples=8, train_base=True).build_model()
    assert model.get_layer("base").trainable_weights
