"""Which plugins reach a training loop of a script's own."""

from typing import Any, ClassVar

import attrs
import pytest

from tfopt_core import DataPlan
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.own_loop import check_precision, reaching, why_not_reached
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.plugins import Effect, Plugin, RunContext, TrainingOptions, hookimpl


@attrs.frozen(kw_only=True, eq=False)
class Reads(Plugin):
    """Changes the data."""

    @hookimpl
    def build_dataset(self, run: RunContext, split: str, plan: DataPlan) -> Any:
        return plan

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        return Effect.applied_as("read")


@attrs.frozen(kw_only=True, eq=False)
class Compiles(Reads):
    """Changes the data, and how the model is compiled."""

    @hookimpl
    def configure_training(self, run: RunContext, model: Any, options: TrainingOptions) -> Any:
        return options


@attrs.frozen(kw_only=True, eq=False)
class Declares(Reads):
    """Changes the data of `fit` only."""

    own_loop: ClassVar[bool] = False


@attrs.frozen(kw_only=True, eq=False)
class Changes(Reads):
    """Changes the model."""

    model_change: ClassVar[str] = "in-place"


def test_a_plugin_reaches_the_loop_if_all_its_hooks_do():
    assert why_not_reached(Reads) == ""
    assert "configure_training" in why_not_reached(Compiles)


@pytest.mark.parametrize("other", [Compiles, Declares, Changes])
def test_the_others_are_left_out(other):
    stack = (StackedPlugin("reads", Reads()), StackedPlugin("other", other()))
    assert [one.name for one in reaching(stack)] == ["reads"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (PrecisionPolicy(policy="mixed_float16"), "take mixed_bfloat16"),
        (PrecisionPolicy(policy="mixed_bfloat16", scope="layers"), 'take scope = "global"'),
    ],
)
def test_a_precision_in_which_the_loop_would_train_wrong_is_refused(policy, said):
    with pytest.raises(WorkloadError, match=said):
        check_precision(policy)


def test_bfloat16_set_before_the_model_is_built_is_accepted():
    check_precision(PrecisionPolicy())
    check_precision(PrecisionPolicy(policy="mixed_bfloat16"))
