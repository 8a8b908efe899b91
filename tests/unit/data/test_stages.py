"""Every stage is what it says of itself."""

import inspect
import sys

import pytest
from support.compared import plain
from support.lazy_modules import tf
from tfopt_distribute import sharing

from tfopt_core import data as stages
from tfopt_core.data import DataPlan, Stage
from tfopt_core.data.stage import counts

NUMBERS = [*range(11), 3]  # a stage may drop what it has seen


def all_stages(base=Stage):
    for kind in base.__subclasses__():
        module = sys.modules[kind.__module__]
        ours = module is sharing or module.__name__.startswith("tfopt_core.")
        # (attrs makes each class anew, and the first one lives on for a while)
        if ours and getattr(module, kind.__name__) is kind:
            if not inspect.isabstract(kind):
                yield kind
            yield from all_stages(kind)


def example_of(kind):
    """Return a stage of this class that does something to twelve numbers, or batches of three."""

    def negative(x):
        return -x

    def is_even(x):
        return x % 2 == 0

    def both(x):
        return tf.data.Dataset.from_tensors(x).concatenate(tf.data.Dataset.from_tensors(-x))

    settings = {
        "Batch": {"size": 5},
        "EvenSteps": {"batches": 4},
        "Filter": {"function": is_even},
        "Interleave": {"function": both, "cycle_length": 1},
        "Map": {"function": negative},
        "MapBatches": {"function": negative},
        "MapExamples": {"function": negative, "parallel": 2},
        "Opaque": {"function": lambda dataset: dataset.take(3)},
        "Options": {"options": tf.data.Options()},
        "PaddedBatch": {"size": 5},
        "PartOfBatch": {"count": 2, "index": 0},
        "PartOfExamples": {"count": 2, "index": 0, "of": 4},
        "PartOfSource": {"count": 2, "index": 1},
        "RaggedBatch": {"size": 5},
        "Repeat": {"count": 2},
        "Shard": {"count": 3, "index": 1},
        "Shuffle": {"seed": 1},
        "KerasShuffle": {"seed": 1, "passes": lambda: None},
        "Skip": {"count": 2},
        "Source": {"value": NUMBERS, "origin": "arrays", "count": len(NUMBERS)},
        "Take": {"count": 5},
        "TakeWhile": {"function": lambda x: x < 5},
        "Window": {"size": 5},
    }
    return kind(**settings.get(kind.__name__, {}))


KINDS = sorted(set(all_stages()) - {stages.Source}, key=lambda kind: kind.kind)
# These are given batches.
OF_BATCHES = (stages.Unbatch, stages.MapBatches, sharing.PartOfBatch, stages.EvenSteps)

of_every_stage = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)


def made(stage, numbers):
    """Return what a stage makes of these numbers; of none, these as it is given them."""
    return [plain(element) for element in stage.lower(given(stage, numbers))]


def given(stage, numbers):
    dataset = tf.data.Dataset.from_tensor_slices(numbers)
    return dataset.batch(3) if isinstance(stage, OF_BATCHES) else dataset


def numbers_in(elements):
    if isinstance(elements, list | tuple):
        return sorted(number for element in elements for number in numbers_in(element))
    return [elements] if isinstance(elements, int) else []


def test_every_stage_has_a_kind_and_a_description_of_its_own():
    kinds = [*KINDS, stages.Source]
    assert len(kinds) > 20
    assert len({kind.kind for kind in kinds}) == len(kinds)
    assert all(kind.__doc__ and kind.kind != Stage.kind for kind in kinds)


@of_every_stage
def test_as_many_elements_come_out_as_it_counts(kind):
    stage = example_of(kind)
    before = [stages.Batch(size=3)] if isinstance(stage, OF_BATCHES) else []
    source = DataPlan.from_arrays(NUMBERS).source
    count = counts([source, *before, stage])[-1]
    assert count.elements in (None, len(made(stage, NUMBERS)))
    assert not stage.one_to_one or count.elements is not None


@of_every_stage
def test_its_elements_are_those_that_it_says(kind):
    stage = example_of(kind)
    came = [plain(element) for element in given(stage, NUMBERS)]
    left = made(stage, NUMBERS)
    match stage.yields:
        case "same":
            assert sorted(left) == sorted(came)
        case "mapped":
            assert len(left) == len(came)
            assert left != came
        case "some":
            assert all(element in came for element in left)
            assert left != came


@of_every_stage
def test_they_come_in_the_order_that_it_says(kind):
    stage = example_of(kind)
    assert stage.order != "unknown"
    assert stage.has_fixed_order(any_order=False)
    if stage.yields == "same":
        assert (made(stage, NUMBERS) == NUMBERS) is (stage.order == "kept")
    if stage.neutral:
        assert (stage.yields, stage.order) == ("same", "kept")
    if stage.deterministic:
        dataset = stage.lower(given(stage, NUMBERS))
        assert [plain(element) for element in dataset] == [plain(element) for element in dataset]


@of_every_stage
def test_what_does_not_choose_yields_the_same_of_another_order(kind):
    stage = example_of(kind)
    if not stage.chooses:
        assert numbers_in(made(stage, NUMBERS)) == numbers_in(made(stage, NUMBERS[::-1]))


@pytest.mark.thorough
@of_every_stage
def test_what_does_not_stop_early_reads_all(kind):
    stage = example_of(kind)
    read = []

    def numbers():
        for number in NUMBERS:
            read.append(number)
            yield number

    spec = tf.TensorSpec((), "int32")
    dataset = tf.data.Dataset.from_generator(numbers, output_signature=spec)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(NUMBERS)))
    dataset = dataset.batch(3) if isinstance(stage, OF_BATCHES) else dataset
    list(stage.lower(dataset))
    if not stage.stops_early and not isinstance(stage, stages.Opaque):
        assert set(read) == set(NUMBERS)


@of_every_stage
def test_what_is_elementwise_makes_of_two_parts_what_it_makes_of_the_whole(kind):
    stage = example_of(kind)
    parts = made(stage, NUMBERS[:6]) + made(stage, NUMBERS[6:])
    if stage.elementwise:
        assert parts == made(stage, NUMBERS)
