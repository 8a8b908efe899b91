"""A stage that a plugin defines: core and the other plugins treat it by what it says of itself."""

import math
from itertools import chain
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from support.compared import elements, plain
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.pipelines import assert_left_alone, kinds
from tfopt_data.batch import with_last_batch_dropped
from tfopt_data.cache import with_cache, with_partial_cache
from tfopt_data.data_service import with_service
from tfopt_data.rewrite import Rewrite
from tfopt_data.shuffle import with_shuffle_up
from tfopt_data.vectorize_map import with_vectorized_maps
from tfopt_distribute.sharing import by_batch, by_source
from tfopt_runtime.resident import with_resident

from tfopt_core import DataPlan, Workload
from tfopt_core.data import ModelStage, Resident, Shuffle, Stage
from tfopt_core.data.lower import lower, lower_stages
from tfopt_core.data.stage import Order
from tfopt_core.data.stages import in_any_order
from tfopt_core.plugins import Plugin, PluginRefused, hookimpl


@attrs.frozen(kw_only=True, eq=False)
class Twice(Stage):
    """Yields each element and, right behind it, its negative. It says what it must, no more."""

    kind: ClassVar[str] = "twice"

    def lower(self, dataset):
        return dataset.map(lambda x: tf.stack([x, -x])).unbatch()

    def count_after(self, before):
        return before.with_elements(None if before.elements is None else 2 * before.elements)


@attrs.frozen(kw_only=True, eq=False)
class KnownTwice(Twice):
    """The same, and says all that there is to say."""

    kind: ClassVar[str] = "known_twice"
    order: ClassVar[Order] = "kept"
    computes: ClassVar[bool] = True
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
    deterministic: bool | None = True

    @property
    def elementwise(self):
        return True


@attrs.frozen(kw_only=True, eq=False)
class Halved(Stage):
    """Makes of each batch two of half its size."""

    kind: ClassVar[str] = "halved"

    def lower(self, dataset):
        return dataset.unbatch().batch(4)

    def count_after(self, before):
        return attrs.evolve(before, elements=None, inside=None, batch_size=4)


def plus_one(x):
    return x + 1


def numbers(count=10):
    return DataPlan.from_arrays(np.arange(float(count)))


def examples(plan):
    return sorted(np.concatenate([np.ravel(element) for element in lower(plan)]).tolist())


def test_a_stage_must_say_how_it_lowers_and_counts():
    @attrs.frozen(kw_only=True, eq=False)
    class Silent(Stage):
        """Says nothing."""

    with pytest.raises(TypeError, match=r"abstract .*count_after.*lower"):
        Silent()


@pytest.mark.parametrize("kind", [Twice, KnownTwice])
def test_it_is_lowered_counted_and_described(kind):
    plan = numbers(3).map(plus_one).append(kind())
    assert elements(plan) == [1, -1, 2, -2, 3, -3]
    assert elements(plan) == [plain(element) for element in lower_stages(plan.stages)]
    assert (plan.examples, plan.cardinality) == (6, 6)
    assert plan.batch(4).cardinality == math.ceil(6 / 4)
    assert plan.describe()[-1] == kind.kind
    assert plan.describe_change(plan.upto(2)) == (f"{kind.kind}, after map_examples",)
    assert kinds(plan.map(plus_one).batch(2).first(5))[2:4] == [kind.kind, "take"]


def test_the_order_of_an_unknown_stage_is_unknown():
    plan = numbers().append(KnownTwice()).append(Twice())
    assert in_any_order(plan.stages) == [plan.stages[2]]


def test_examples_are_counted_as_shared_among_workers():
    for count in (2, 3):
        whole = numbers().append(KnownTwice()).batch(6)
        parts = [elements(by_batch(whole, count, rank)) for rank in range(count)]
        together = [list(chain(*batch)) for batch in zip(*parts, strict=True)]
        assert together == elements(whole)


# What a plugin does to it: (the plan, the rewrite, why it leaves an unknown stage alone)
unknown = numbers().map(plus_one).append(Twice())
LEFT_ALONE = {
    "cache before it": (unknown.batch(4), with_cache, "stops reading before the cache is full"),
    "cache of it": (
        numbers().append(Twice()).map(plus_one).batch(4), with_cache,
        "nothing before it is worth keeping: twice",
    ),
    "shuffle behind it": (unknown.shuffle(4).batch(2), with_shuffle_up, '"twice" before it draws'),
    "shuffle before it": (
        numbers().map(plus_one).shuffle(4).append(Twice()).batch(2), with_shuffle_up,
        '"twice" behind it would choose other examples',
    ),
    "resident": (
        unknown.batch(4), lambda plan: Rewrite(plan, reason=with_resident(plan)),
        'twice "Twice" yields something else each time',
    ),
    "data service": (
        numbers().append(Shuffle(seed=3)).append(Twice()).batch(4),
        lambda plan: with_service(plan, lambda dataset: dataset, divided=False),
        '"twice" behind it would choose other examples',
    ),
    "last batch": (
        numbers().batch(8).append(Halved()), with_last_batch_dropped,
        "made where tfopt does not see it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_plugin_leaves_alone_what_it_does_not_know(name):
    plan, rewrite, reason = LEFT_ALONE[name]
    assert_left_alone(plan, rewrite(plan), reason)


@pytest.mark.parametrize(
    ("share", "plan", "reason"),
    [
        (by_batch, unknown.batch(4), r'"twice" yields its elements in any order.*some examples tw'),
        (by_source, unknown.batch(4), r'"twice" makes another number of elements'),
        (by_source, numbers().append(KnownTwice()).batch(4), r"makes another number of elements"),
        (by_source, numbers(16).batch(8).append(Halved()), "made where tfopt does not see it"),
    ],
)
def test_workers_do_not_share_what_may_not_be_each_example_once(share, plan, reason):
    with pytest.raises(PluginRefused, match=reason):
        share(plan, 2, 0)


known = numbers().map(plus_one).append(KnownTwice())
REWRITTEN = {
    "cache": (
        known.batch(4), with_cache, ["source", "map_examples", "known_twice", "cache", "batch"],
    ),
    "partial cache": (
        known, lambda plan: with_partial_cache(plan, 1_000), ["source"],
    ),
    "resident": (
        known.append(Shuffle(seed=1)).batch(4), lambda plan: Rewrite(with_resident(plan)),
        ["source", "map_examples", "known_twice", "resident", "shuffle", "batch"],
    ),
    "shuffle": (
        known.map(plus_one).shuffle(4).batch(4), with_shuffle_up,
        ["source", "map_examples", "known_twice", "shuffle", "map_examples", "batch"],
    ),
    "vectorized map": (
        known.map(plus_one).batch(4), with_vectorized_maps,
        ["source", "map_examples", "known_twice", "batch", "map_batches"],
    ),
    "data service": (
        known.batch(4), lambda plan: with_service(plan, lambda dataset: dataset, divided=False),
        ["source", "map_examples", "known_twice", "batch", "opaque"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_plugin_rewrites_around_what_it_knows_and_the_examples_stay(name):
    plan, rewrite, wanted = REWRITTEN[name]
    result = rewrite(plan)
    assert kinds(result.plan) == wanted, result.reason
    assert examples(result.plan) == examples(plan)


@attrs.frozen(kw_only=True, eq=False)
class Predicted(ModelStage):
    """Replaces each x by what the model makes of it."""

    kind = "predicted"
    model: Any = None
    usable: bool = True

    def lower(self, dataset):
        return dataset if self.model is None else self.on_batches(dataset)

    def count_after(self, before):
        return before

    def for_model(self, model):
        return attrs.evolve(self, model=model) if self.usable else None

    def on_batches(self, dataset):
        return dataset.map(lambda x, y: (self.model(x), y))

    def release(self, model):
        """Nothing was changed."""


@attrs.frozen(kw_only=True, eq=False)
class Predicts(Plugin):
    """Appends the stage to the training data."""

    usable: bool = True

    @hookimpl
    def build_dataset(self, run, split, plan):
        return plan.append(Predicted(usable=self.usable))

    @hookimpl
    def wrap_model(self, run, model):
        assert not run.datasets
        model.get_layer("out").kernel.assign([[2.0], [2.0]])
        return model

    @hookimpl
    def configure_training(self, run, options):
        assert run.datasets["train"].element_spec is run.element_spec
        return options


def workload():
    def model():
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="out")])

    x = [[1.0, 2.0], [3.0, 4.0]]
    plan = DataPlan.from_arrays(x, [0.0, 1.0]).batch(2)
    return Workload(train=plan, build_model=model, optimizer="sgd", loss="mse")


def test_a_plan_without_a_model_hands_its_elements_on():
    plan = workload().train.append(Predicted())
    ((x, _),) = lower(plan)
    assert x.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert plan.without_model().model_stages == ()


def test_a_run_lowers_its_plans_with_the_wrapped_model(tmp_path):
    built = build_here(workload(), Predicts(), folder=tmp_path, batch_size=None)
    ((x, _),) = built.run.datasets["train"]
    assert x.numpy().tolist() == [[6.0], [14.0]]
    assert built.plans["train"].model_stages[0].model is built.model


def test_a_stage_that_can_do_nothing_for_the_model_is_left_out(tmp_path):
    built = build_here(workload(), Predicts(usable=False), folder=tmp_path, batch_size=None)
    assert built.plans["train"].model_stages == ()
    ((x, _),) = built.run.datasets["train"]
    assert x.shape == (2, 2)


def test_what_is_held_behind_such_a_stage_is_computed_anew_without_it():
    class Doubles:
        def __call__(self, x):
            return 2 * x

    plan = workload().train.append(Predicted()).append(Resident()).for_model(Doubles())
    ((with_model, _),) = lower(plan)
    ((without, _),) = lower(plan.without_model())
    ((again, _),) = lower(plan)
    assert with_model.numpy().tolist() == again.numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert without.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
