"""The autotune plugin: what it sets is what the lowered data set says."""

from functools import partial

import attrs
import numpy as np
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import tf
from support.plugin_drive import FakeProbe
from tfopt_data.autotune import Autotune, with_autotune
from tfopt_data.prefetch import with_prefetch

from tfopt_core import DataPlan
from tfopt_core.data import Autotune as AutotuneStage
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_machine, make_run, stack_of

PLAN = DataPlan.from_arrays(np.arange(6.0)).batch(2)


def test_auto_takes_what_this_process_may_use():
    probe = FakeProbe(machine=make_machine(cpu_count=3))
    resolved = Autotune().resolve(probe)
    assert (resolved.cpu_budget, resolved.ram_budget_mib) == (3, 512)
    fixed = Autotune(cpu_budget=1, ram_budget_mib=7).resolve(probe)
    assert (fixed.cpu_budget, fixed.ram_budget_mib) == (1, 7)


def test_switched_off_no_budget_is_set():
    [*_, stage] = with_autotune(PLAN, False, 3, 512).plan.stages
    assert isinstance(stage, AutotuneStage)
    assert stage.describe() == "autotune: off"
    assert stage.ram_budget_bytes is None


def test_it_stays_on_where_what_is_read_ahead_decides_an_order():
    endless = PLAN.shuffle(seed=1).repeat()
    refused = with_autotune(endless, on=False)
    assert refused.plan is endless
    assert refused.reason.startswith("a repeat follows a shuffle")
    for plan in (endless.prefetch(), PLAN.repeat(), PLAN.shuffle(seed=1)):
        assert with_autotune(plan, on=False).done == "autotune: off"
    assert with_autotune(endless, on=True).done


@pytest.mark.tensorflow
@pytest.mark.parametrize("change", [with_prefetch, partial(with_autotune, on=False)])
def test_what_draws_on_where_it_was_read_ahead_to_is_left_alone_in_repeated_data(change):
    generator = tf.random.Generator.from_seed(3)
    drawn = PLAN.map(lambda x: x + generator.normal((), dtype=x.dtype))
    refused = change(drawn.repeat())
    assert not refused.done
    assert "RngReadAndSkip" in refused.reason
    assert "how far is read ahead" in refused.reason
    assert "read ahead" not in change(drawn.repeat(2).prefetch(1)).reason  # as the user set it
    assert change(drawn).done  # read to its end, a pass leaves the generator where it always does
    seeded = PLAN.map(lambda x: x + tf.random.uniform((), seed=1, maxval=9, dtype=x.dtype))
    assert change(seeded.repeat()).done  # its draws begin anew with each iterator


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["budget", "off"])
def test_the_lowered_data_set_has_the_options_and_the_same_elements(mode):
    plugin = Autotune(mode=mode, cpu_budget=2, ram_budget_mib=64)
    stack = stack_of(plugin, build_dataset=PLAN)
    run = make_run()
    dataset = lower(stack.build_dataset(run, "train"))
    assert dataset.options().autotune.enabled is (mode == "budget")
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 1], [2, 3], [4, 5]]
    run = attrs.evolve(run, datasets={"train": dataset})
    effect = stack.report_effects(run, None)["Autotune"]
    assert effect.applied
    assert effect.detail == "train: autotune: " + ("2 CPUs, 64 MiB" if mode == "budget" else "off")


@pytest.mark.tensorflow
def test_budgets_that_the_lowered_data_do_not_hold_are_not_applied():
    plugin = Autotune(cpu_budget=2, ram_budget_mib=64)
    stack = stack_of(plugin, build_dataset=PLAN)
    run = make_run()
    stack.build_dataset(run, "train")
    run = attrs.evolve(run, datasets={"train": tf.data.Dataset.range(3)})
    effect = stack.report_effects(run, None)["Autotune"]
    assert not effect.applied
    assert "the lowered data hold other options" in effect.detail


# Where it may pay

CALM = diagnosis(
    input_=0.0, dispatch=0.001, compute=0.009, data=0.0001, example_bytes=8.0,
    machine=make_machine(cpu_count=2, cpu_count_total=8), epochs=3, plans={"train": PLAN},
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "suggested"),
    [
        ({}, {"mode": "off"}),
        ({"steps_per_epoch": None}, None),
        ({"input_seconds": 0.5, "step_seconds": 1.0}, {"mode": "budget"}),
    ],
)
def test_it_is_suggested_for_short_epochs_and_in_containers(changes, suggested):
    assert Autotune().suggest(attrs.evolve(CALM, **changes)) == suggested
