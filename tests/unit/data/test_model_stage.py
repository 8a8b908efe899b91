"""A stage that computes with the model: what plans do with it before and after there is one."""

from typing import Any

import attrs
import pytest
from support.in_process import build_here
from support.lazy_modules import keras

from tfopt_core import DataPlan, Workload
from tfopt_core.data import ModelStage, Resident
from tfopt_core.data.lower import lower
from tfopt_core.data.stage import Count
from tfopt_core.plugins import Plugin, hookimpl

pytestmark = pytest.mark.tensorflow


@attrs.frozen(kw_only=True, eq=False)
class Predicted(ModelStage):
    """Replaces each x by what the model makes of it."""

    kind = "predicted"
    model: Any = None
    usable: bool = True

    def lower(self, dataset: Any) -> Any:
        return dataset if self.model is None else self.on_batches(dataset)

    def count_after(self, before: Count) -> Count:
        return before

    def for_model(self, model: Any) -> Any:
        return attrs.evolve(self, model=model) if self.usable else None

    def on_batches(self, dataset: Any) -> Any:
        return dataset.map(lambda x, y: (self.model(x), y))

    def release(self, model: Any) -> None:
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


def workload() -> Workload:
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
