"""The workloads as they are built: data, model, what they are judged by."""

import pytest
from support.lazy_modules import keras, tf
from tfopt_workloads import (
    clipart_jpeg,
    fashion_gradients,
    fashion_mnist,
    flights,
    locations,
    stdlib_text,
    weather,
)

from tfopt_core.errors import WorkloadError

pytestmark = pytest.mark.tensorflow

ALL = [clipart_jpeg, fashion_mnist, flights, stdlib_text, weather]
SMALL = {
    clipart_jpeg: {"examples": 128, "size": 32},
    stdlib_text: {"examples": 320, "tokens": 8, "blocks": 1},
    weather: {"examples": 640, "hours": 8},
}


def example(plan):
    """The first example, as the plan's map returns it."""
    data = tf.data.Dataset.from_tensor_slices(plan.source.value)
    for stage in plan.stages[1:]:
        data = data.map(stage.function)
    return next(iter(data))


def test_fashion_mnist_examples_fit_its_model():
    workload = fashion_mnist.build(examples=20)
    image, label = example(workload.train)
    assert (image.shape, image.dtype, label.dtype) == ((28, 28, 1), "float32", "uint8")
    assert 0 <= float(image.numpy().min()) < float(image.numpy().max()) <= 1
    assert workload.build_model()(image[None]).shape == (1, 10)


def test_gradients_are_the_same_from_the_pydataset_and_as_arrays():
    fed = fashion_gradients.build(examples=40)
    arrays = fashion_gradients.build(examples=40, feed="arrays")
    batches = [fed.train[index] for index in range(len(fed.train))]
    assert [len(labels) for _, labels in batches] == [32, 8]
    features, labels = arrays.train
    assert (features.shape, features.dtype) == ((40, 441), "float32")
    assert (features[32:] == batches[1][0]).all()
    assert (labels[32:] == batches[1][1]).all()
    assert fed.build_model()(features).shape == (40, 10)


@pytest.mark.thorough
@pytest.mark.parametrize("module", ALL)
def test_models_draw_nothing_in_training(module):
    workload = module.build(examples=10)
    model = workload.build_model()
    inputs = tf.nest.map_structure(
        lambda x: tf.convert_to_tensor(x)[None], example(workload.train)[0]
    )
    first, second = (model(inputs, training=True).numpy().tolist() for _ in range(2))
    assert first == second


def test_flight_examples_fit_its_model():
    workload = flights.build(examples=20)
    inputs, late = example(workload.train)
    assert inputs["numbers"].shape == (flights.NUMBERS,)
    assert inputs["codes"].dtype == "int32"
    assert late.shape == (1,)
    batch = {name: tf.expand_dims(value, 0) for name, value in inputs.items()}
    assert workload.build_model()(batch).shape == (1, 1)
    assert workload.validation.source.count == 20_000


def test_features_computed_ahead_equal_those_of_the_map():
    import numpy as np

    mapped, _ = example(flights.build(examples=1).train)
    ahead = flights.build(examples=1, prepare="ahead")
    assert len(ahead.train.stages) == 1
    inputs = ahead.train.source.value[0]
    np.testing.assert_allclose(mapped["numbers"], inputs["numbers"][0], rtol=1e-5, atol=1e-5)
    assert mapped["codes"].numpy().tolist() == inputs["codes"][0].tolist()


def test_vocabularies_are_as_long_as_those_of_the_bundled_data():
    from tfopt_workloads import bundled

    arrays = bundled.load("flights")
    assert {
        name: len(arrays[f"{name}_names"]) for name in flights.VOCABULARIES
    } == flights.VOCABULARIES


@pytest.mark.thorough
@pytest.mark.parametrize("module", ALL)
def test_a_short_training_learns_and_reports_the_quality_metric(module):
    keras.utils.set_random_seed(1)
    workload = module.build(**SMALL.get(module, {"examples": 320}))
    data = tf.data.Dataset.from_tensor_slices(workload.train.source.value)
    data = data.shuffle(1_000)
    for stage in workload.train.stages[1:]:
        data = data.map(stage.function)
    history = compiled(workload).fit(data.batch(32), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert workload.quality_metric.removeprefix("val_") in history


def compiled(workload):
    model = workload.build_model()
    metrics = [metric if isinstance(metric, str) else metric() for metric in workload.metrics]
    optimizer = workload.optimizer() if callable(workload.optimizer) else workload.optimizer
    model.compile(optimizer=optimizer, loss=workload.loss, metrics=metrics)
    return model


@pytest.mark.parametrize("module", ALL)
def test_saved_models_consist_of_layers_of_keras(module, tmp_path):
    model = module.build(**SMALL.get(module, {"examples": 10})).build_model()
    assert all(type(layer).__module__.startswith("keras.") for layer in model.layers)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.count_params() == model.count_params()


@pytest.mark.skipif(
    not locations.FASHION_MNIST_FOLDER.is_dir(), reason="dataset-fashion-mnist is missing"
)
def test_the_full_source_has_all_images():
    workload = fashion_mnist.build(source="full")
    assert workload.train.source.count == 60_000
    assert workload.validation.source.count == 10_000


def test_a_failed_download_is_a_workload_error(monkeypatch):
    def fail():
        raise Exception("URL fetch failure")

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", fail)
    with pytest.raises(WorkloadError, match=r"URL fetch failure.*network"):
        fashion_mnist.build(source="keras")
