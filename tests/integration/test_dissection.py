"""Data sets as workloads give them: they come apart, and train the same as before."""

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core.data import DataPlan, MapExamples
from tfopt_core.data.lower import lower, lower_stages
from tfopt_core.training.input.sources import as_plan, batched_plan

pytestmark = pytest.mark.tensorflow

X = np.linspace(-1, 1, 20, dtype="float32").reshape(10, 2)
Y = X[:, :1] * 2 + 1


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Ten small pictures in two folders, as `image_dataset_from_directory` reads them."""
    folder = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(0).integers(0, 255, (10, 9, 7, 3), dtype="uint8")
    for index, picture in enumerate(pixels):
        place = folder / ("even" if index % 2 == 0 else "odd") / f"{index}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(tf.io.encode_png(picture).numpy())
    return folder


def of_pictures(folder):
    return keras.utils.image_dataset_from_directory(
        str(folder), image_size=(8, 8), batch_size=4, seed=5, verbose=False
    )


def of_slices(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y))


def history(dataset, model):
    keras.utils.set_random_seed(1)
    trained = model()
    trained.compile("sgd", "mse")
    return trained.fit(dataset, epochs=2, verbose=0).history["loss"]


def classifier():
    layers = [keras.layers.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255)]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(1)])


def line():
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])


@pytest.mark.thorough
def test_a_folder_of_pictures_comes_apart_and_trains_the_same(pictures):
    given = of_pictures(pictures)
    plan = DataPlan.from_dataset(given)
    kinds = [stage.kind for stage in plan.stages]
    assert kinds == ["source", "shuffle", "map_examples", "batch", "prefetch"]
    assert plan.source.origin == "zip"
    assert plan.source.deterministic
    assert [part.source.origin for part in plan.source.parts] == ["arrays", "arrays"]
    assert (plan.examples, plan.cardinality, plan.batch_size) == (10, 3, 4)
    assert lower(plan) is given
    losses = history(given, classifier)
    assert history(lower_stages(plan.stages), classifier) == losses
    # decoding hoisted before the shuffle, as a cache plugin does: the same epochs
    decode, shuffle = plan.stages[2], plan.stages[1]
    hoisted = plan.with_stages((plan.source, decode, shuffle, *plan.stages[3:]))
    assert history(lower(hoisted), classifier) == losses


def test_what_is_measured_against_is_what_it_was_for_opaque_data_sets():
    """Shuffled behind the workload's own stages and then batched, with the same seed."""
    plan = batched_plan(
        as_plan(of_slices().map(lambda x, y: (x, y)), "train"), "train",
        batch_size=4, explicit=True, shuffle=True, seed=6,
    )  # fmt: skip
    assert isinstance(plan.stages[1], MapExamples)
    by_hand = of_slices().map(lambda x, y: (x, y)).shuffle(10, seed=6).batch(4)
    for ours, theirs in ((lower(plan), by_hand), (lower(plan.prefetch()), by_hand)):
        assert int(ours.cardinality()) == int(theirs.cardinality())
    keras.utils.set_random_seed(4)
    ours = lower(plan)
    keras.utils.set_random_seed(4)
    theirs = of_slices().map(lambda x, y: (x, y)).shuffle(10, seed=6).batch(4)
    assert history(ours, line) == history(theirs, line)
