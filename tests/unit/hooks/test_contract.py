"""Which hooks a plugin has is read from its class; which plugins reach a loop of a script's own."""

import attrs
import pluggy
import pytest

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.contract import check_class, implementations
from tfopt_core.hooks.own_loop import check_precision, reaching, why_not_reached
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.plugins import Effect, Plugin, RuntimeOptions, hookimpl, plugin
from tfopt_core.testing import make_machine, stack_of


class Raises:
    """A descriptor that cannot be read, from an instance or from the class."""

    def __get__(self, instance, owner):
        raise RuntimeError("was read")


@attrs.frozen(kw_only=True, eq=False)
class Unreadable(Plugin):
    """Has a setting without a default, and attributes that raise."""

    size: int
    unset: int = attrs.field(init=False)
    descriptor = Raises()

    @property
    def seconds(self):
        raise RuntimeError("was read")

    @hookimpl
    def configure_runtime(self, options):
        return attrs.evolve(options, intra_op_threads=self.size)


@pytest.fixture(params=["installed", "1.5"])
def pluggy_version(request, monkeypatch):
    """Look for hooks as the installed pluggy does, and as pluggy 1.5 and 1.6 do."""

    def parse(self, plugin, name):
        return getattr(getattr(plugin, name), "tfopt_impl", None)

    if request.param == "1.5":
        monkeypatch.setattr(pluggy.PluginManager, "parse_hookimpl_opts", parse)


@pytest.mark.usefixtures("pluggy_version")
def test_the_hooks_of_a_class_are_found_without_an_object():
    assert list(implementations(Unreadable)) == ["configure_runtime"]


@pytest.mark.usefixtures("pluggy_version")
def test_no_attribute_of_a_plugin_is_read_to_find_its_hooks():
    plugin = Unreadable(size=3)
    assert list(implementations(type(plugin))) == ["configure_runtime"]
    check_class("unreadable", type(plugin))
    options = stack_of(plugin, configure_runtime=RuntimeOptions()).configure_runtime(
        make_machine(), None
    )
    assert options.intra_op_threads == 3


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
