"""The workloads as they are built: data, model, what they are judged by."""

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from tfopt_workloads import (
    bundled,
    clipart_jpeg,
    clipart_transfer,
    fashion_efficientnet,
    fashion_gradients,
    fashion_mnist,
    flights,
    flights_features,
    locations,
    stdlib_text,
    weather,
)

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.training.factory import load_workload

ALL = [clipart_jpeg, fashion_mnist, flights, stdlib_text, weather]
SMALL = {
    clipart_jpeg: {"examples": 128, "size": 32},
    stdlib_text: {"examples": 320, "tokens": 8, "blocks": 1},
    weather: {"examples": 640, "hours": 8},
}


def example(plan):
    return next(iter(lower(plan)))


@pytest.mark.parametrize(
    ("module", "options", "outputs"),
    [
        (clipart_jpeg, {"examples": 8, "size": 48}, 8),
        (fashion_mnist, {"examples": 20}, 10),
        (flights, {"examples": 20}, 1),
        (stdlib_text, {"examples": 320}, 8),
        (weather, {"examples": 10, "hours": 24}, 1),
    ],
)
def test_examples_fit_the_model_and_its_saved_form_has_layers_of_keras(
    module, options, outputs, tmp_path
):
    workload = module.build(**options)
    inputs = tf.nest.map_structure(lambda x: x[None], example(workload.train)[0])
    model = workload.build_model()
    assert model(inputs).shape == (1, outputs)
    assert all(type(layer).__module__.startswith("keras.") for layer in model.layers)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").count_params() == model.count_params()


def test_pictures_are_floats_between_0_and_1():
    for workload in (fashion_mnist.build(examples=20), clipart_jpeg.build(examples=8, size=48)):
        picture = example(workload.train)[0]
        assert picture.dtype == "float32"
        assert 0 <= float(np.min(picture)) < float(np.max(picture)) <= 1


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


def test_features_computed_ahead_equal_those_of_the_map():
    mapped, _ = example(flights.build(examples=1).train)
    ahead = flights.build(examples=1, prepare="ahead")
    assert len(ahead.train.stages) == 1
    inputs = ahead.train.source.value[0]
    np.testing.assert_allclose(mapped["numbers"], inputs["numbers"][0], rtol=1e-5, atol=1e-5)
    assert mapped["codes"].numpy().tolist() == inputs["codes"][0].tolist()


def test_vocabularies_are_as_long_as_those_of_the_bundled_data():
    arrays = bundled.load("flights")
    assert {
        name: len(arrays[f"{name}_names"]) for name in flights.VOCABULARIES
    } == flights.VOCABULARIES


@pytest.mark.thorough
@pytest.mark.parametrize("module", ALL)
def test_a_short_training_learns_reports_the_quality_metric_and_the_model_draws_nothing(module):
    keras.utils.set_random_seed(1)
    workload = module.build(**SMALL.get(module, {"examples": 320}))
    model = workload.build_model()
    metrics = [metric if isinstance(metric, str) else metric() for metric in workload.metrics]
    optimizer = workload.optimizer() if callable(workload.optimizer) else workload.optimizer
    model.compile(optimizer=optimizer, loss=workload.loss, metrics=metrics)
    data = lower(workload.train).shuffle(1_000).batch(32)
    history = model.fit(data, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert workload.quality_metric.removeprefix("val_") in history
    inputs = next(iter(data))[0]
    first, second = (model(inputs, training=True).numpy().tolist() for _ in range(2))
    assert first == second


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


def test_pictures_for_an_efficientnet_are_enlarged_to_three_equal_channels_up_to_255():
    workload = fashion_efficientnet.build(examples=40, held_out=30, classes=5, size=40)
    assert (workload.train.source.count, workload.validation.source.count) == (40, 30)
    assert set(workload.train.source.value[1].tolist()) == {0, 1, 2, 3, 4}
    enlarged, _ = example(workload.train)
    assert enlarged.shape == (40, 40, 3)
    assert np.ptp(np.asarray(enlarged), axis=-1).max() == 0
    assert 200 < float(np.max(enlarged)) <= 255


def test_a_transferred_head_is_trained_on_other_classes_than_its_base():
    workload = clipart_transfer.build()
    names = {path.split("/")[-2] for path in workload.train.source.value[0].tolist()}
    assert names == {"recreation", "shapes", "signs_and_symbols", "transportation"}
    assert set(workload.validation.source.value[1].tolist()) == {0, 1, 2, 3}


@pytest.mark.thorough
def test_a_base_is_frozen_unless_it_is_to_be_trained_and_tells_pictures_apart():
    workload = clipart_transfer.build(examples=8)
    model = workload.build_model()
    assert [layer.name for layer in model.layers if layer.trainable_weights] == ["logits"]
    base = model.get_layer("base")
    assert base.count_params() == 410_208
    assert all(np.isfinite(weight).all() for weight in base.get_weights())
    pictures = tf.stack([picture for picture, _ in lower(workload.train)])
    assert np.asarray(base(1 - 2 * pictures, training=False)).std(axis=0).max() > 0.1
    trained = clipart_transfer.build(examples=8, train_base=True).build_model()
    assert trained.get_layer("base").trainable_weights


@pytest.mark.thorough
def test_batches_of_features_are_shuffled_and_hold_what_is_encoded_ahead():
    keras.utils.set_random_seed(1)
    batches = flights_features.build(examples=40, batch_size=16)
    kinds = [stage.kind for stage in DataPlan.from_dataset(batches.train).stages]
    assert kinds == ["source", "shuffle", "batch", "map_batches", "prefetch"]
    ahead = flights_features.build(examples=40, batch_size=16, prepare="ahead")
    features, late = (np.concatenate(parts) for parts in zip(*batches.train, strict=True))
    order, expected = (np.lexsort(np.asarray(rows).T) for rows in (features, ahead.train[0]))
    assert np.array_equal(features[order], np.asarray(ahead.train[0])[expected])
    assert np.array_equal(late[order], ahead.train[1][expected])
    assert [len(late) for _, late in batches.train] == [16, 16, 8]
    assert batches.build_model()(features).shape == (40, 1)


def studied(**options):
    """The workload of the study of hyperparameters with few flights, and its model."""
    given = [f"workload.options.{name}={value}" for name, value in options.items()]
    recipe = read_recipe("hyperparameter-study", ["workload.options.examples=64", *given]).require()
    workload = load_workload(recipe)
    return workload, workload.build_model()


@pytest.mark.parametrize(
    ("options", "rate", "dropout", "penalties"),
    [({}, 1e-3, [], 0), ({"learning_rate": 0.02, "l2": 1e-4, "dropout": 0.3}, 0.02, [0.3, 0.3], 2)],
)
def test_learning_rate_penalty_and_dropout_of_the_study_reach_the_training(
    options, rate, dropout, penalties
):
    workload, model = studied(**options)
    assert float(workload.optimizer().learning_rate) == pytest.approx(rate)
    rates = [layer.rate for layer in model.layers if layer.__class__.__name__ == "Dropout"]
    assert (rates, len(model.losses)) == (dropout, penalties)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learning_rate": 0.0}, '"learning_rate" takes a number above 0, got 0.0'),
        ({"l2": -1.0}, '"l2" takes a number at least 0, got -1.0'),
        ({"dropout": "true"}, '"dropout" takes a number at least 0 and below 1, got True'),
    ],
)
def test_a_value_that_no_training_can_have_is_named(options, said):
    with pytest.raises(WorkloadError) as caught:
        studied(**options)
    assert said in str(caught.value)
