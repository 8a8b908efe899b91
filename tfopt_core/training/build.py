"""Build a training from a job: call every hook up to `compile`, in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Resident
from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import PrecisionPolicy, TrainingOptions
from tfopt_core.lazy import keras, np, tf
from tfopt_core.training.defaults import baseline_plans, default_model, default_options
from tfopt_core.training.factory import load_workload
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.input.sources import batches_counted
from tfopt_core.training.job import Job
from tfopt_core.training.model.layers import count_names_from_first_build
from tfopt_core.training.model.loss_scaling import compile_model, prepare_scaling, with_scaled_step
from tfopt_core.training.model.precision import apply_precision, set_policy
from tfopt_core.training.strategy import Joined, apart_from_earlier_strategies, hide_one_device
from tfopt_core.training.workload import Workload


@attrs.define(eq=False)
class Built:
    """A training that is ready to start, with its data plans lowered and its model compiled.

    :param batches: how many batches Keras is to count in the data, by split; None where it does
        not know how many there are in the workload's own.
    :param steps_given: whether `fit` is told how many steps an epoch has.
    :param keeps_step: why only Keras' own number of steps a call, for which an earlier fit has
        traced the step, goes on with it; empty if others do.
    :param shuffle_draws: counts the iterators over the data while they are trained on.
    """

    job: Job
    workload: Workload
    stack: Stack
    run: RunContext
    plans: dict[str, DataPlan]
    model: Any
    precision: PrecisionPolicy
    training: TrainingOptions
    batches: Mapping[str, int | None] = attrs.field(factory=dict)
    steps_given: bool = False
    keeps_step: str = ""
    shuffle_draws: ShuffleDraws | None = None


def load(job: Job) -> Workload:
    """Set the job's seed, since a factory may split its data at random, and load the workload.

    :raises WorkloadError: see `load_workload`.
    """
    keras.utils.set_random_seed(job.seed)
    return load_workload(job.recipe)


def build(job: Job, workload: Workload, joined: Joined | None = None) -> Built:
    """Call every hook up to `compile` and return the training.

    :param joined: a strategy that was built before. Without it, TensorFlow's default strategy
        stands in for one that must be built before the workload is loaded.
    :raises PluginError, PluginRefused: naming the plugin that failed.
    :raises WorkloadError: if the workload's parts do not make a training.
    """
    by_itself: Callable[[Job], Built] | None = getattr(workload, "built", None)
    if by_itself is not None:  # a call of a script's `fit`, whose model exists already
        return by_itself(job)
    count_names_from_first_build(workload.build_model)
    stack = Stack(job.plugins, job.runtime_changes)
    batch_size = job.recipe.workload.batch_size or workload.batch_size
    run = job.context(stack, epochs=job.epochs(workload), batch_size=batch_size)
    if joined is not None:
        run = attrs.evolve(run, cluster=joined.cluster, states=joined.states)
    precision = stack.configure_precision(run)
    default_policy = set_policy(precision)
    strategy = tf.distribute.get_strategy()
    if joined is not None:
        strategy = stack.with_strategy(joined.strategy)
    elif not job.runtime.builds_strategy_first:
        apart_from_earlier_strategies()
        strategy = stack.build_strategy(run, strategy, tf.distribute.Strategy)
    run = attrs.evolve(run, strategy=strategy, replicas=strategy.num_replicas_in_sync)

    before = baseline_plans(job, workload)
    plans = {split: stack.build_dataset(run, split, plan) for split, plan in before.items()}
    # Seed again, so that random numbers drawn for the data do not change the initial weights.
    keras.utils.set_random_seed(job.seed)
    with strategy.scope():
        model = stack.wrap_model(run, default_model(workload), keras.Model)
        apply_precision(model, precision, default_policy)
    # A stage may compute with the model, so plans are lowered behind `wrap_model`.
    plans = {split: plan.for_model(model) for split, plan in plans.items()}
    with stack.blamed("build_dataset"):
        datasets = _lowered(plans, job.seed)
    run = _with_data(run, datasets, plans)
    with strategy.scope():
        training = stack.configure_training(run, model, default_options(workload))
        training = with_scaled_step(model, training, precision, run.replicas)
        with stack.blamed("configure_training"):
            compile_model(model, training, precision)
        prepare_scaling(model, precision, run.replicas)
    hide_one_device(model, strategy)
    batches = {
        split: batches_counted(plan.cardinality, plans[split]) for split, plan in before.items()
    }
    built = Built(job, workload, stack, run, plans, model, precision, training, batches)
    if training.loop != "resident" and plans["train"].find(Resident) is not None:
        # no loop trains on what is held: the data stay as they were
        built.plans = {split: plan.without(Resident) for split, plan in plans.items()}
        built.run = _with_data(run, _lowered(built.plans, job.seed), built.plans)
    return built


def _lowered(plans: Mapping[str, DataPlan], seed: int) -> dict[str, Any]:
    """Return the data by split. Their seeds do not depend on what the model has drawn, and what
    the training draws later does not depend on them."""
    drawn = random.getstate(), np.random.get_state()
    keras.utils.set_random_seed(seed)
    datasets = {split: lower(plan) for split, plan in plans.items()}
    random.setstate(drawn[0])
    np.random.set_state(drawn[1])
    return datasets


def _with_data(run: RunContext, datasets: dict[str, Any], plans: dict[str, DataPlan]) -> RunContext:
    for split, name in (("train", "training"), ("validation", "validation")):
        data = datasets.get(split)
        if isinstance(data, tf.data.Dataset) and int(data.cardinality()) == 0:
            raise WorkloadError(f"the {name} data are empty")
    train = datasets["train"]
    if not isinstance(train, tf.data.Dataset):
        return attrs.evolve(
            run, datasets=datasets, batch_size=None, steps_per_epoch=train.num_batches
        )
    steps = int(train.cardinality())
    if steps == tf.data.INFINITE_CARDINALITY:
        raise WorkloadError("the training data never end; end an epoch with take()")
    return attrs.evolve(
        run,
        datasets=datasets,
        element_spec=train.element_spec,
        steps_per_epoch=steps if steps > 0 else None,
        batch_size=plans["train"].batch_size,
    )
