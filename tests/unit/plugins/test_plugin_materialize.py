"""Materialize: what repeats is read once, in the same batches; what does not is refused by name."""

import attrs
import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, tf
from support.plugin_drive import FakeProbe
from support.small_workloads import line, pydataset
from tfopt_data.materialize import Materialize

from tfopt_core import DataPlan
from tfopt_core.data import Take, lower_plan
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run

X = np.random.default_rng(0).random((22, 3), dtype="float32")
Y = X.sum(1, keepdims=True)


def sequence(change="", size=4, workers=1):
    """A PyDataset over `X` and `Y` that is random, or whose on_epoch_end changes the order."""

    class Rows(keras.utils.PyDataset):
        def __init__(self):
            super().__init__(workers=workers)
            self.order, self.read = np.arange(len(X)), 0
            self.rng = np.random.default_rng(3)

        def __len__(self):
            return -(-len(X) // size)

        def __getitem__(self, index):
            self.read += 1
            rows = self.last = self.order[index * size : (index + 1) * size]
            noise = self.rng.random() if change == "random" else 0
            return (X[rows] + noise).astype("float32"), Y[rows]

        def on_epoch_end(self):
            if change == "examples":
                self.rng.shuffle(self.order)
            elif change == "batches":
                full = self.order[:20].reshape(5, 4)
                self.rng.shuffle(full)

    return Rows()


def examples():
    # lists of floats, which are float64 in NumPy
    yield from ((row.tolist(), total) for row, total in zip(X, Y, strict=True))


def resolved(plan, **settings):
    return Materialize(**settings).resolve(FakeProbe(plans={"train": plan}))


def built(plan, folder, **settings):
    plugin = resolved(plan, **settings)
    after = plugin.build_dataset(make_run(folder=folder, steps_per_epoch=None), "train", plan)
    assert isinstance(after, DataPlan)
    return after


def epoch(dataset):
    return [tuple(np.asarray(leaf) for leaf in batch) for batch in dataset]


def same(ours, theirs):
    return len(ours) == len(theirs) and all(
        np.array_equal(a, b)
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(
    ("change", "redrawn", "order", "equivalence"),
    [
        ("", False, "kept", "exact"),
        ("", True, "batches", "order"),
        ("batches", True, "batches", "order"),
        ("examples", False, "examples", "order"),
    ],
)
def test_order_is_what_the_pydataset_and_keras_draw(change, redrawn, order, equivalence):
    plugin = resolved(DataPlan.from_pydataset(sequence(change), redrawn=redrawn))
    assert (plugin.order, plugin.equivalence(), plugin.storage) == (order, equivalence, "memory")


def test_epochs_of_other_examples_are_refused_by_the_name_of_the_pydataset():
    with pytest.raises(PluginRefused, match='PyDataset "Rows" yields other examples in each epoch'):
        resolved(DataPlan.from_pydataset(sequence("random")))


def counted_passes(data=False):
    """A plan of a generator whose examples follow the last of the numbers in a list, to which each
    pass adds one."""
    passes = []

    def counted():
        passes.append(len(passes) + 1)
        yield from np.full((5, 2), passes[-1] // 3, "float32")

    signature = tf.TensorSpec([2])
    if data:
        made = tf.data.Dataset.from_generator(counted, output_signature=signature)
        return DataPlan.from_dataset(made), passes
    return DataPlan.from_generator(counted, signature=signature), passes


def test_a_generator_that_changes_in_its_third_pass_is_refused():
    with pytest.raises(PluginRefused, match="5 of the 5 in epoch 3 are not among"):
        resolved(counted_passes()[0])


def test_a_data_set_of_a_generator_that_has_changed_is_refused_at_the_end(tmp_path):
    plan, passes = counted_passes(data=True)
    run = make_run(folder=tmp_path, steps_per_epoch=None)
    plugin = Materialize(storage="memory", order="kept", compared=True)
    run = attrs.evolve(
        run, datasets={"train": lower_plan(plugin.build_dataset(run, "train", plan))}
    )
    assert plugin.report_effect(run).applied
    passes[:] = [1] * 8
    with pytest.raises(PluginRefused, match="was changed in the training"):
        plugin.report_effect(run)


def test_a_generator_that_fills_one_array_again_and_again_is_read_as_it_was_at_each_example():
    passes = iter(range(9))

    def refilled():
        row, number = np.zeros(3, "float32"), next(passes)
        for index in range(6):
            row[:] = index + (number if index == 2 else 0)
            yield row

    plan = DataPlan.from_generator(refilled, signature=tf.TensorSpec([3]))
    with pytest.raises(PluginRefused, match="1 of the 6 in epoch 2 are not among"):
        resolved(plan.batch(2))


@pytest.mark.parametrize("storage", ["memory", "disk"])
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_those_of_the_pydataset(tmp_path, storage, workers):
    data = sequence(workers=workers)
    lowered = lower_plan(built(DataPlan.from_pydataset(data), tmp_path, storage=storage))
    read = data.read
    assert same(epoch(lowered), [data[index] for index in range(len(data))])
    assert same(epoch(lowered), epoch(lowered))
    assert data.read == read + len(data)  # by this test alone
    assert int(lowered.cardinality()) == 6


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_drawn_batches_hold_what_they_held_and_come_in_another_order(tmp_path, storage):
    data = sequence()
    plan = DataPlan.from_pydataset(data, redrawn=True)
    lowered = lower_plan(built(plan, tmp_path, storage=storage))
    own = [data[index][0].tobytes() for index in range(len(data))]
    first, second = ([x.tobytes() for x, _ in epoch(lowered)] for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(own)
    assert first != second
    assert first[-1] == second[-1] == own[-1]  # the smaller batch


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_generator_keeps_types_and_the_order_of_the_shuffle_behind_it(tmp_path, storage):
    signature = (tf.TensorSpec((3,), "float32"), tf.TensorSpec((1,), "float32"))
    plan = DataPlan.from_generator(examples, signature=signature).shuffle(seed=5).batch(4)
    after = built(plan, tmp_path, storage=storage)
    stock, ours = lower_plan(plan), lower_plan(after)
    assert same(epoch(stock), epoch(ours))
    assert same(epoch(stock), epoch(ours))  # the second epoch of each
    assert next(x.dtype for x, _ in epoch(ours)) == "float32"


def test_running_generator_is_read_on_for_its_steps(tmp_path):
    def for_ever():
        while True:
            yield from ((X[i : i + 4], Y[i : i + 4]) for i in range(0, 20, 4))

    running = for_ever()
    spec = (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1)))
    dataset = tf.data.Dataset.from_generator(lambda: running, output_signature=spec)
    plan = DataPlan.from_dataset(dataset)
    source = attrs.evolve(plan.source, read_once=True, batched=True)
    plan = DataPlan((source,), ((source, dataset),))
    plugin = resolved(plan.append(Take(count=5)))
    assert plugin.order == "kept"
    run = make_run(folder=tmp_path, steps_per_epoch=5)
    after = plugin.build_dataset(run, "train", plan)
    assert same(epoch(lower_plan(after)), [(X[i : i + 4], Y[i : i + 4]) for i in range(0, 20, 4)])
    with pytest.raises(PluginRefused, match="the generator that fit is given yields other"):
        resolved(plan.append(Take(count=3)))


def test_batches_of_uneven_size_are_refused_by_their_number():
    uneven = pydataset(*((X[:size], Y[:size]) for size in (4, 3, 2)))
    with pytest.raises(PluginRefused, match='batch 1 of the PyDataset "Batches" is smaller'):
        resolved(DataPlan.from_pydataset(uneven))


def test_examples_of_other_shapes_are_refused():
    def growing():
        yield from (np.zeros(size) for size in (1, 2))

    with pytest.raises(PluginRefused, match=r"example 1 of the generator .* another shape"):
        resolved(DataPlan.from_generator(growing))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (lambda: DataPlan.from_arrays(X).batch(4), "no Python yields the examples"),
        (
            lambda: DataPlan.from_generator(examples).filter(lambda x, y: True).take(3),
            '"take: 3" may end an epoch of data that have no end',
        ),
    ],
)
def test_plan_is_unchanged_with_the_reason(plan, reason, tmp_path):
    given, run = plan(), make_run(folder=tmp_path, steps_per_epoch=None)
    plugin = resolved(given)
    assert plugin.build_dataset(run, "train", given) is given
    effect = plugin.report_effect(run)
    assert not effect.applied
    assert reason in effect.detail


@pytest.mark.parametrize("change", ["", "batches", "examples"])
def test_what_a_callback_has_changed_is_refused_at_the_end_and_another_order_is_not(
    change, tmp_path, monkeypatch
):
    rows = sequence(change)
    plan = DataPlan.from_pydataset(rows)
    plugin, run = resolved(plan), make_run(folder=tmp_path, steps_per_epoch=None)
    data = lower_plan(plugin.build_dataset(run, "train", plan))
    run = attrs.evolve(run, datasets={"train": data})
    rows.on_epoch_end()  # as where a callback predicts from it
    assert plugin.report_effect(run).applied
    monkeypatch.setattr(type(rows), "__getitem__", lambda self, index: (X[:4] + 1, Y[:4]))
    with pytest.raises(PluginRefused, match='"Rows" was changed in the training'):
        plugin.report_effect(run)


def test_memory_that_does_not_suffice_is_refused_with_both_sizes():
    probe = FakeProbe(plans={"train": DataPlan.from_pydataset(sequence())}, free=1000)
    assert Materialize().resolve(probe).storage == "disk"
    with pytest.raises(PluginRefused, match=r'352 bytes, more than 25% of the 1000 bytes.*"disk"'):
        Materialize(storage="memory").resolve(probe)


def test_validation_data_that_python_does_not_yield_leave_no_epochs_to_compare_in_a_run():
    validation = DataPlan.from_arrays(np.zeros((4, 3), "float32"), np.zeros(4, "float32"))
    plans = {"train": DataPlan.from_pydataset(sequence()), "validation": validation}
    assert Materialize().resolve(FakeProbe(plans=plans)).compared


def test_one_epoch_is_named_and_a_pydataset_that_still_feeds_keras_is_not_applied(tmp_path):
    fed = line(train=sequence(), validation=sequence(), shuffle=False)
    plugin = Materialize(order="kept", storage="memory")
    built, _ = train_here(fed, plugin, folder=tmp_path, batch_size=None, epochs=1)
    one = plugin.report_effect(built.run)
    assert one.applied  # its order may be another one
    assert one.detail.endswith("of one epoch nothing is read twice")
    run = attrs.evolve(
        built.run, epochs=2, datasets={split: sequence() for split in ("train", "validation")}
    )
    effect = plugin.report_effect(run)
    assert not effect.applied
    assert "what Python yields" in effect.detail
