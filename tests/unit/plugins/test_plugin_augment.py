"""The augmentation: where it stands, and that no two epochs and examples get the same changes."""

import inspect
import textwrap

import attrs
import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.pipelines import kinds
from tfopt_data.augment import Augment, with_augmentation
from tfopt_data.augment_layers import (
    MIXING_LAYERS,
    OTHER_LAYERS,
    RANDOM_LAYERS,
    load_function,
    made_layers,
    seed_generators,
)
from tfopt_data.cache import Cache

from tfopt_core import DataPlan
from tfopt_core.data import Cache as CacheStage
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run, stack_of

BRIGHTNESS = {"layer": "RandomBrightness", "factor": 0.4, "value_range": [0.0, 1.0]}
GREY = np.full((24, 2, 2, 1), 0.5, "float32")
LABELS = np.arange(24)


def twice(*element):
    return element


def augmented(plugin, plan, **changes):
    """The lowered training data."""
    return lower(stack_of(plugin, build_dataset=plan).build_dataset(make_run(**changes), "train"))


def keras_layer(table, **more):
    table = dict(table)
    return getattr(keras.layers, table.pop("layer"))(**table, **more)


def brightness(dataset):
    """One figure for each example of an epoch."""
    return [float(one) for x, _ in dataset for one in x.numpy()[:, 0, 0, 0]]


# Where it stands


def test_examples_are_augmented_behind_cache_and_shuffle_and_before_the_batch():
    plan = DataPlan.from_arrays(GREY, LABELS).map(twice).cache().shuffle().batch(4).prefetch()
    changed = with_augmentation(plan, twice, parallel=3).plan
    assert kinds(changed) == [
        "source", "map_examples", "cache", "shuffle", "map_examples", "batch", "prefetch",
    ]  # fmt: skip
    assert changed.stages[4].parallel == 3
    assert changed.stages[4].deterministic is False


def test_batches_are_augmented_behind_the_batch_and_before_a_prefetch():
    plan = DataPlan.from_arrays(GREY, LABELS).shuffle().batch(4).cache().prefetch()
    changed = with_augmentation(plan, twice, "batches").plan
    assert kinds(changed) == ["source", "shuffle", "batch", "cache", "map_batches", "prefetch"]


def test_examples_in_front_of_kept_batches_are_refused():
    plan = DataPlan.from_arrays(GREY, LABELS).batch(4).cache()
    with pytest.raises(PluginRefused, match=r'keeps whole batches.*set on = "batches"'):
        with_augmentation(plan, twice)


@pytest.mark.parametrize("first", ["cache", "augment"])
def test_cache_in_either_order_keeps_nothing_random(first):
    calm = DataPlan.from_arrays(GREY, LABELS).map(lambda x, y: (x * 1.0, y)).shuffle().batch(4)
    augment = Augment(layers=[BRIGHTNESS])
    stack = [Cache(storage="memory"), augment]
    if first == "augment":
        stack.reverse()
    plan = stack_of(*stack, build_dataset=calm).build_dataset(make_run(), "train")
    cache = plan.find(CacheStage)
    assert cache is not None
    assert cache < kinds(plan).index("map_examples", kinds(plan).index("cache"))
    dataset = lower(plan)
    assert walk.has_stage(dataset, "Cache")
    assert not set(brightness(dataset)) & set(brightness(dataset))


def test_whole_batches_without_examples_are_refused():
    def opaque():
        yield GREY[:4], LABELS[:4]

    spec = (tf.TensorSpec((None, 2, 2, 1)), tf.TensorSpec((None,), tf.int64))
    batches = tf.data.Dataset.from_generator(opaque, output_signature=spec)
    plan = DataPlan.from_dataset(batches)
    plan = attrs.evolve(plan, stages=(attrs.evolve(plan.source, batched=True),), given=())
    with pytest.raises(PluginRefused, match="no single examples"):
        with_augmentation(plan, twice)
    assert with_augmentation(plan, twice, "batches").done


# What it does


@pytest.mark.thorough
@pytest.mark.parametrize("parallel", [1, 8, "auto"])
@pytest.mark.parametrize("on", ["examples", "batches"])
def test_epochs_and_examples_are_changed_differently(parallel, on):
    grey = np.full((500, 2, 2, 1), 0.5, "float32")
    plan = DataPlan.from_arrays(grey, np.arange(500)).batch(4)
    dataset = augmented(Augment(layers=[BRIGHTNESS], parallel=parallel, on=on), plan)
    first, second = brightness(dataset), brightness(dataset)
    # of 500 numbers of 23 bits, two may be the same by chance
    assert len(set(first)) > 495
    assert len(set(first) & set(second)) < 5
    labels = [int(y) for _, y in dataset.unbatch()]
    assert labels == list(range(500))


def test_the_generators_of_layers_within_layers_are_found():
    layer = keras_layer({"layer": "RandAugment"})
    found = seed_generators([layer])
    states = [id(generator.state) for generator in found]
    assert len(found) > 1
    assert set(states) == {
        id(variable) for variable in layer.variables if "seed_generator" in variable.path
    }


def test_sequential_changes_are_those_of_the_seed():
    plan = DataPlan.from_arrays(GREY, LABELS).batch(4)
    plugin = Augment(layers=[BRIGHTNESS], parallel=1)
    runs = [augmented(plugin, plan, seed=seed) for seed in (1, 1, 2)]
    one, same, other = [[brightness(dataset) for _ in range(2)] for dataset in runs]
    assert one == same
    assert one != other


@pytest.mark.parametrize("argument", ["x", "x, y"])
def test_a_functions_random_operations_differ_under_a_global_seed(argument, tmp_path, monkeypatch):
    returned = "x + noise" if argument == "x" else "(x + noise, y)"
    code = f"""
        import tensorflow as tf
        def noisy({argument}):
            noise = tf.random.uniform([])
            if noise > 2.0:  # what autograph is for
                noise = 0.0
            return {returned}
    """
    (tmp_path / f"aug_{len(argument)}.py").write_text(textwrap.dedent(code))
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    plugin = Augment(function=f"aug_{len(argument)}.py:noisy")
    dataset = augmented(plugin, DataPlan.from_arrays(GREY, LABELS).batch(4))
    first, second = brightness(dataset), brightness(dataset)
    assert len(set(first)) == 24
    assert not set(first) & set(second)


def test_a_function_that_takes_a_seed_is_reproducible(tmp_path, monkeypatch):
    code = """
        import tensorflow as tf
        def noisy(x, y, seed):
            return x + tf.random.stateless_uniform([], seed), y
    """
    (tmp_path / "seeded.py").write_text(textwrap.dedent(code))
    monkeypatch.chdir(tmp_path)
    plan = DataPlan.from_arrays(GREY, LABELS).batch(4)
    datasets = [augmented(Augment(function="seeded.py:noisy", parallel=1), plan) for _ in "ab"]
    (first, second), other = [brightness(datasets[0]) for _ in "ab"], brightness(datasets[1])
    assert first == other
    assert not set(first) & set(second)


def test_layers_keep_float32_under_a_half_precision_policy():
    keras.config.set_dtype_policy("mixed_bfloat16")
    dataset = augmented(Augment(layers=[BRIGHTNESS]), DataPlan.from_arrays(GREY, LABELS).batch(4))
    assert dataset.element_spec[0].dtype == "float32"


def test_mixing_layers_mix_one_hot_labels_and_refuse_whole_numbers():
    one_hot = np.eye(24, dtype="float32")
    plugin = Augment(layers=[{"layer": "MixUp"}], on="batches")
    pictures = np.random.default_rng(0).random((24, 2, 2, 1), dtype="float32")
    dataset = augmented(plugin, DataPlan.from_arrays(pictures, one_hot).batch(8))
    labels = np.concatenate([y for _, y in dataset.as_numpy_iterator()])
    assert np.allclose(labels.sum(1), 1.0, atol=1e-5)
    assert (np.sort(labels, axis=1)[:, -2] > 0).any()
    with pytest.raises(PluginRefused, match="one-hot"):
        augmented(plugin, DataPlan.from_arrays(pictures, LABELS).batch(8))


# What it says


def test_layers_that_drew_nothing_are_not_applied():
    plan = DataPlan.from_arrays(GREY, LABELS).batch(4)
    stack = stack_of(Augment(layers=[BRIGHTNESS], parallel=1), build_dataset=plan)
    run = make_run()
    dataset = lower(stack.build_dataset(run, "train"))
    run = attrs.evolve(run, datasets={"train": dataset})
    effect = stack.report_effects(run, None)["Augment"]
    assert not effect.applied
    assert effect.detail == "the layers drew no random number"
    brightness(dataset)
    assert stack.report_effects(run, None)["Augment"].applied


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"layer": "RandomFlip", "mod": "horizontal"}, 'no argument "mod"; did you mean "mode"'),
        ({"layer": "RandomFlip", "mode": "diagonal"}, 'layer "RandomFlip"'),
        ({"layer": "RandomZoom", "height_factor": 0.1}, "shape"),
    ],
)
def test_wrong_arguments_and_shapes_are_refused_when_built(layer, message):
    plan = DataPlan.from_arrays(np.zeros((8, 5), "float32"), np.zeros(8)).batch(4)
    with pytest.raises(PluginRefused, match=message):
        augmented(Augment(layers=[layer]), plan)


def test_dictionaries_are_refused_for_layers():
    plan = DataPlan.from_arrays({"a": GREY}, LABELS).batch(4)
    with pytest.raises(PluginRefused, match=r"the inputs are a dict.*use a function"):
        augmented(Augment(layers=[BRIGHTNESS]), plan)


def test_the_layers_that_it_knows_are_those_of_keras():
    found = {
        name
        for name in dir(keras.layers)
        if inspect.isclass(layer := getattr(keras.layers, name))
        and ".preprocessing." in layer.__module__
    }
    # an older Keras has fewer
    assert found <= {*RANDOM_LAYERS, *OTHER_LAYERS}
    if tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 15):
        assert found == {*RANDOM_LAYERS, *OTHER_LAYERS}
    assert set(MIXING_LAYERS) < set(RANDOM_LAYERS)


def test_a_layer_that_this_keras_does_not_have_is_named(monkeypatch):
    monkeypatch.delattr(keras.layers, "RandomFlip")
    with pytest.raises(PluginRefused, match=r'^Keras 3\.\d+\.\d+ has no layer "RandomFlip"'):
        made_layers([{"layer": "RandomFlip"}], "7")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_module_here:f", 'no module "no_such_module_here"'),
        ("there.py:flop", 'did you mean "flip"'),
        ("broken.py:flip", "cannot be imported: raised ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused(place, message, tmp_path):
    (tmp_path / "there.py").write_text("def flip(x):\n    return x\n\nnumber = 1\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(PluginRefused, match=message):
        load_function(place, [tmp_path])
