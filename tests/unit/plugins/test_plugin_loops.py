"""The loops' plugins: what they choose, where data are kept, what they refuse and suggest."""

import math

import attrs
import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import CPU, FakeProbe, machine_with
from tfopt_runtime.chunked import Chunked, choose
from tfopt_runtime.resident import Resident, why_too_large, with_resident

from tfopt_core import DataPlan
from tfopt_core.data import Shuffle
from tfopt_core.hooks.machine import Gpu
from tfopt_core.plugins import PluginRefused, TrainingOptions
from tfopt_core.testing import make_run

GIB = 2**30


def timed(seconds):
    return lambda loops: [seconds.get(loop, math.inf) for loop in loops]


PLAIN = {(1, False): 8.0, (4, False): 4.0, (16, False): 3.0, (64, False): 2.95}


@pytest.mark.parametrize(
    ("compiled", "chosen"),
    [
        ({(16, True): 1.5, (64, True): 1.0}, (64, True)),
        ({(16, True): 1.5, (64, True): 1.49}, (16, True)),
        ({(16, True): 30.0}, (16, False)),
        ({(16, True): 3.5, (64, True): 2.0}, (64, True)),  # more steps may make up for it
        ({(16, True): 2.95, (64, True): 2.95}, (16, False)),
        ({}, (16, False)),  # cannot be compiled
    ],
)
def test_xla_is_taken_where_it_is_three_percent_faster(compiled, chosen):
    assert choose(timed(PLAIN | compiled), "auto", "auto", None) == chosen


def test_what_is_given_is_not_chosen():
    times = timed(PLAIN | {(8, False): 2.0, (8, True): 1.0})
    assert choose(times, 8, "auto", None) == (8, True)
    assert choose(times, "auto", False, None) == (16, False)
    assert choose(times, "auto", False, 10) == (4, False)
    assert choose(times, 8, True, None) == (8, True)


def test_where_xla_is_hopeless_no_large_chunk_is_compiled():
    asked = []

    def times(loops):
        asked.extend(loops)
        return [20.0 if xla else 1.0 for _, xla in loops]

    assert choose(times, "auto", "auto", None) == (1, False)
    assert (64, True) not in asked


def test_resolve_times_single_steps_without_xla_first():
    probe = FakeProbe(seconds=lambda plugin: {(1, False): 1.0}.get((plugin.steps, plugin.xla), 5.0))
    assert Chunked().resolve(probe).steps == 1
    assert (probe.timed[0][0].steps, probe.timed[0][0].xla) == (1, False)


# Where data are kept


def plan_of():
    return DataPlan.from_arrays(np.zeros((20, 3), "float32"), np.zeros(20, "float32"))


def scaled(x, y):
    return x * 2, y


def noisy(x, y):
    return x + tf.random.normal(tf.shape(x)), y


def test_deterministic_maps_are_computed_once_and_moved_before_the_shuffle_without_a_cache():
    plan = plan_of().map(scaled).cache().shuffle(seed=1).map(scaled).batch(4).map(scaled).prefetch()
    assert " ".join(stage.kind for stage in with_resident(plan).stages) == (
        "source map_examples map_examples resident shuffle batch map_batches prefetch"
    )


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda plan: plan.map(noisy).batch(4), "yields something else each time"),
        (lambda plan: plan.batch(4).map(noisy), '"noisy" would draw other random numbers'),
        (lambda plan: plan.repeat(2).batch(4), "would be kept as often"),
        (lambda plan: plan.shuffle(seed=1).take(3).batch(4), 'stands behind "shuffle'),
        (lambda plan: plan.batch(4).shuffle(seed=1), "stands behind the data that are held"),
        (lambda plan: plan.batch(4).take(2), 'stands behind "batch: 4"'),
        (lambda plan: plan.shuffle(seed=1), "not put into batches"),
        (
            lambda plan: (
                plan.shuffle(seed=7)
                .append(Shuffle(seed=7, buffer_size=8, reshuffle=False))
                .batch(4)
            ),
            "two shuffles stand behind each other",
        ),
    ],
)
def test_what_cannot_be_gathered_is_refused_by_name(make, why):
    plan = make(plan_of())
    assert why in with_resident(plan)


def test_a_generator_of_unknown_make_is_not_kept():
    plan = DataPlan.from_generator(lambda: iter([(1.0, 2.0)])).batch(2)
    assert "not known to yield the same" in with_resident(plan)


# Memory


def test_data_that_fill_more_than_half_of_the_memory_are_refused_with_figures():
    assert why_too_large(100.0, 1_000, GIB, CPU) == ""
    said = why_too_large(GIB / 1_000, 2_000, 3 * GIB, CPU)
    assert said == "2,000 examples take 2 GiB, more than 40% of the 3 GiB of memory that are free"
    gpu = why_too_large(GIB, 9, 64 * GIB, machine_with((8, 0)))
    assert "9 GiB, more than 40% of the 15 GiB of memory of GPU 0 that are free" in gpu
    silent = attrs.evolve(CPU, gpus=(Gpu("AMD GPU", (0, 0), 0),))
    assert why_too_large(1.0, 9, GIB, silent) == (
        "how much of the memory of AMD GPU is free is not known"
    )
    for unknown in ((None, 10), (4.0, None)):
        assert "unknown" in why_too_large(*unknown, GIB, CPU)  # type: ignore[call-arg]


def test_resolve_refuses_before_anything_is_trained():
    probe = FakeProbe(sizes={"train": (1000.0, 10_000)}, free=15_000_000)
    with pytest.raises(PluginRefused, match=r"10,000 examples take 9\.5 MiB"):
        Resident().resolve(probe)
    assert probe.timed == []


@pytest.mark.parametrize(("compiled", "xla"), [(0.5, True), (0.98, False), (30.0, False)])
def test_resolve_times_xla_against_the_same_loop_once(compiled, xla):
    probe = FakeProbe(
        sizes={"train": (4.0, 100)}, seconds=lambda plugin: compiled if plugin.xla else 1.0
    )
    assert Resident().resolve(probe).xla is xla
    assert len(probe.timed) == 1


def test_xla_is_not_timed_where_the_stack_conflicts_with_it():
    against = {"xla": "fused-recurrent"}
    probe = FakeProbe(sizes={"train": (4.0, 100)}, conflicts=against)
    assert Resident().resolve(probe).xla is False
    assert probe.timed == []
    probe = FakeProbe(seconds=lambda plugin: 1.0 if plugin.steps == 1 else 0.5, conflicts=against)
    resolved = Chunked().resolve(probe)
    assert (resolved.steps, resolved.xla) == (4, False)
    assert not any(one.xla for timed in probe.timed for one in timed)


@pytest.mark.parametrize("kind", [Chunked, Resident])
@pytest.mark.parametrize(("machine", "jit_compile"), [(CPU, True), (machine_with((8, 0)), "auto")])
def test_no_loop_without_xla_takes_steps_that_xla_compiles(kind, machine, jit_compile):
    run = make_run(machine=machine)
    options = TrainingOptions(optimizer="sgd", jit_compile=jit_compile)
    plugin = kind(steps=4, xla=False)
    assert plugin.configure_training(run, options) == options
    assert "may round otherwise" in plugin.report_effect(run, keras.Sequential()).detail
    assert kind(steps=4, xla=True).configure_training(run, options).steps_per_execution == 4
