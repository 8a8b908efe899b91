"""A map that decodes and then draws is two maps, which together make and draw the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compared import epochs
from support.lazy_modules import keras, tf
from tfopt_data.cache import with_cache
from tfopt_data.parallel_map import with_parallel_maps
from tfopt_data.rewrite import with_split_maps

from tfopt_core.data import DataPlan, random_ops, split_map
from tfopt_core.data.lower import lower, lower_plan

pytestmark = pytest.mark.tensorflow

IMAGES = np.random.default_rng(0).integers(0, 255, (10, 8, 8, 3)).astype("uint8")


def decoded(image: Any) -> Any:
    return tf.image.resize(tf.cast(image, tf.float32) / 255.0, (6, 6))


def cropped() -> Callable[..., Any]:
    def augment(image: Any, label: Any) -> Any:
        image = tf.image.random_flip_left_right(decoded(image))
        return tf.image.random_crop(image, (4, 4, 3)), label

    return augment


def drawn_in_branches() -> Callable[..., Any]:
    def augment(image: Any, label: Any) -> Any:
        image = decoded(image)
        image = tf.cond(label > 4, lambda: image, lambda: tf.image.flip_up_down(image))
        turned = tf.cond(
            tf.random.uniform(()) > 0.5,
            lambda: tf.image.random_brightness(image, 0.2),
            lambda: image,
        )
        return {"image": turned, "label": label}

    return augment


def layers() -> Callable[..., Any]:
    flip, turn = keras.layers.RandomFlip(seed=3), keras.layers.RandomTranslation(0.2, 0.2, seed=4)
    return lambda image, label: (turn(flip(decoded(image), training=True), training=True), label)


def looked_up() -> Callable[..., Any]:
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(np.arange(10), np.arange(10) ** 2), -1
    )
    return lambda image, label: (decoded(image) + tf.random.normal(()), table.lookup(label))


def called_in_python() -> Callable[..., Any]:
    calls: list[int] = []

    def numbered(image: Any) -> Any:
        calls.append(1)
        return image + np.float32(len(calls))

    return lambda image, label: (tf.numpy_function(numbered, [decoded(image)], tf.float32), label)


def elements(make: Callable[[], Any], change: Callable[[DataPlan], DataPlan]) -> list[Any]:
    """What two epochs of shuffled batches are, each example mapped."""
    keras.utils.set_random_seed(7)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10)))
    plan = DataPlan.from_dataset(data.shuffle(10).map(make()).batch(4))
    return epochs(lower(change(plan)))


def place_of_map(plan: DataPlan) -> int:
    [place] = [i for i, stage in enumerate(plan.stages) if stage.kind == "map_examples"]
    return place


DRAWING = [cropped, drawn_in_branches, layers, looked_up, called_in_python]


@pytest.mark.parametrize("make", DRAWING)
@pytest.mark.parametrize(
    "keep", [lambda plan: plan, lambda plan: with_cache(plan).plan,
             lambda plan: with_parallel_maps(plan, 2).plan],
    ids=["as they are", "the first kept", "the first in parallel"],
)  # fmt: skip
def test_the_two_maps_yield_what_the_one_does(make, keep):
    def change(plan: DataPlan) -> DataPlan:
        found = with_split_maps(plan)
        assert len(found.stages) == len(plan.stages) + 1
        return keep(found)

    assert elements(make, change) == elements(make, lambda plan: plan)


def test_the_first_map_draws_nothing_and_the_second_all() -> None:
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(drawn_in_branches())
    plan = DataPlan.from_dataset(data)
    place = place_of_map(plan)
    found = split_map(plan, place)
    assert found is not None
    assert random_ops(found, place) == ()
    assert random_ops(found, place + 1) == random_ops(plan, place) == ("RandomUniform",)
    assert lower_plan(found).element_spec == data.element_spec
    assert [stage.describe() for stage in found.stages[place:]] == [
        "map_examples: drawn_in_branches.augment, before it draws (sequential)",
        "map_examples: drawn_in_branches.augment, from its draws on (sequential)",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda image, label: (decoded(image), label),
        lambda image, label: (tf.cast(image, tf.float32) * 2 + tf.random.normal(()), label),
        lambda image, label: (decoded(image + tf.cast(tf.random.normal(()), tf.uint8)), label),
    ],
    ids=["draws nothing", "computes next to nothing before", "draws first"],
)
def test_a_map_stays_one_where_two_would_save_nothing(function: Callable[..., Any]) -> None:
    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(function)
    plan = DataPlan.from_dataset(data)
    assert split_map(plan, place_of_map(plan)) is None
    assert with_split_maps(plan) is plan


def test_an_assertion_of_the_first_map_fails_as_before() -> None:
    def checked(image: Any, label: Any) -> Any:
        tf.debugging.assert_less(label, np.int64(5))
        return decoded(image) + tf.random.normal(()), label

    data = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(10))).map(checked)
    found = with_split_maps(DataPlan.from_dataset(data))
    assert len(found.stages) == 3
    with pytest.raises(tf.errors.InvalidArgumentError):
        epochs(lower(found), 1)
