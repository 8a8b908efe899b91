"""Which plugins reach a training loop of a script's own."""

import pytest

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.own_loop import check_precision, reaching, why_not_reached
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.plugins import Effect, Plugin, hookimpl, plugin


def reads(**more):
    """A plugin class that changes the data, with these members besides."""
    hooks = {
        "build_dataset": hookimpl(lambda self, run, split, plan: plan),
        "report_effect": hookimpl(lambda self, run: Effect.applied_as("read")),
    }
    return plugin(type("Reads", (Plugin,), hooks | more))


COMPILES = reads(configure_training=hookimpl(lambda self, options: options))


def test_a_plugin_reaches_the_loop_if_all_its_hooks_do():
    assert why_not_reached(reads()) == ""
    assert "configure_training" in why_not_reached(COMPILES)


@pytest.mark.parametrize("other", [COMPILES, reads(own_loop=False), reads(model_change="in-place")])
def test_the_others_are_left_out(other):
    stack = (StackedPlugin("reads", reads()()), StackedPlugin("other", other()))
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
