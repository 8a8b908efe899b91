"""Build a training from a job: from the workload's values, call every hook up to `compile`."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Resident
from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError, describe
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import PrecisionPolicy, TrainingOptions
from tfopt_core.lazy import keras, np, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.factory import load_workload
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.input.sources import as_plan, batched_plan, batches_counted
from tfopt_core.training.job import Job
from tfopt_core.training.model.layers import (
    count_names_from_first_build,
    frozen_share,
    global_generator,
    name_counts,
    runs_eagerly,
)
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
    with unseen_by_the_script():
        keras.utils.set_random_seed(seed)
        return {split: lower(plan) for split, plan in plans.items()}


@contextlib.contextmanager
def unseen_by_the_script() -> Iterator[None]:
    """Leave Python's and NumPy's global generators where they stand, whether Keras has one, and its
    counts of names, whatever is drawn and built within."""
    drawn, named = (random.getstate(), np.random.get_state()), dict(name_counts())
    generator = global_generator()
    try:
        yield
    finally:
        if global_generator() is not generator:
            from keras.src.backend.common import global_state

            global_state.set_global_attribute("global_seed_generator", generator)
        counts = name_counts()
        counts.clear()
        counts.update(named)
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])


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


def baseline_plans(job: Job, workload: Workload) -> dict[str, DataPlan]:
    """Return the workload's data by split, shuffled and batched: what the baseline trains on."""
    data = {"train": workload.train, "validation": workload.validation}
    size = job.recipe.workload.batch_size
    return {
        split: batched_plan(
            as_plan(given, split), split, batch_size=size or workload.batch_size,
            explicit=size is not None, shuffle=workload.shuffle, seed=job.seed,
        )
        for split, given in data.items() if split == "train" or given is not None
    }  # fmt: skip


def default_model(workload: Workload) -> Any:
    """Return the workload's model.

    :raises WorkloadError: if building it raises or returns something else.
    """
    try:
        model = workload.build_model()
    except Exception as error:
        raise WorkloadError(f"build_model {describe(error)}") from error
    if not isinstance(model, keras.Model):
        raise WorkloadError(
            f"build_model returned type {type(model).__name__}; return a keras.Model"
        )
    return model


def default_options(workload: Workload) -> TrainingOptions:
    """Return the workload's arguments of `compile`, with Keras' defaults for the rest."""
    return TrainingOptions(
        optimizer=rebuilt(workload.optimizer),
        loss=workload.loss,
        metrics=[rebuilt(metric) for metric in workload.metrics],
        weighted_metrics=[rebuilt(metric) for metric in workload.weighted_metrics],
        loss_weights=workload.loss_weights,
        callbacks=workload.callbacks(),
    )


def rebuilt(part: Any) -> Any:
    """Return the optimizer or metric with its variables in the scope that is active now.

    A function that makes one is called. An instance was built outside of the strategy's scope,
    where the factory ran, so it is built again from its configuration. Of a list, the metrics of
    one output, each is.
    """
    if isinstance(part, list | tuple):
        return [rebuilt(one) for one in part]
    if isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric):
        return type(part).from_config(part.get_config())
    made = made_by(part) if callable(part) else None
    return part if made is None else made


def made_by(function: Any) -> Any:
    """Return the optimizer or metric that a function or class makes when it is called without
    arguments; None for a metric function, which takes y_true and y_pred, maybe with defaults."""
    try:
        signature = inspect.signature(function)
        signature.bind()
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None, None)
    except TypeError:  # too few arguments for a metric function
        return function()
    with contextlib.suppress(Exception):  # a metric function may fail without its arguments
        made = function()
        if isinstance(made, str | keras.optimizers.Optimizer | keras.metrics.Metric):
            return made
    return None


# Keras' optimizers whose variables begin as constants, whatever the weights are when they are made.
FROM_CONSTANTS = (
    "SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta", "Adafactor",
    "Ftrl", "Lion", "Lamb", "Muon",
)  # fmt: skip
# What a model does in a step in a way of its own where one of these is its own.
STEP_METHODS = ("train_step", "compute_loss", "compute_metrics")


def build_state(built: Built, replaced: Collection[str] = ()) -> None:
    """Build the optimizer and the metrics, which Keras builds while it traces the first step.

    TensorFlow traces a function that has created variables once more, so each step was traced
    twice. Left to Keras are models under a strategy, models that are not built or not traced, those
    for which it creates none, those whose step, loss, metrics or train function are their own,
    those with frozen layers, which a callback may unfreeze, and all optimizers but those of
    `FROM_CONSTANTS`: another may begin with a copy of the weights, which a callback may load before
    the first step.

    :param replaced: methods that tfopt, not the user, has set on the model itself.
    """
    model = built.model
    if why_without("own-strategy") or model._distribute_strategy is not None:
        return
    if not _starts_from_constants(model.optimizer) or model.optimizer.built or runs_eagerly(model):
        return
    if _creates_nothing(model):
        return
    if _steps_its_own_way(model, replaced) or not model.built or frozen_share(model):
        return
    parts = tf.nest.flatten(built.run.element_spec)
    if all(isinstance(part, tf.TensorSpec) for part in parts):
        # Keras then builds them while it traces
        with contextlib.suppress(Exception), built.run.strategy.scope():
            model._symbolic_build(data_batch=built.run.element_spec)


def _starts_from_constants(optimizer: Any) -> bool:
    """Return whether it is one of `FROM_CONSTANTS`, with or without a loss scale."""
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        optimizer = optimizer.inner_optimizer
    known = [getattr(keras.optimizers, name, None) for name in FROM_CONSTANTS]
    return optimizer is not None and type(optimizer) in known


def _creates_nothing(model: Any) -> bool:
    """Return whether Keras creates no variables while it traces a step, and so traces it once."""
    optimizer = model.optimizer
    without_state = type(optimizer) is keras.optimizers.SGD and not optimizer.momentum
    return without_state and len(model.metrics) <= 1  # that of the loss


def _steps_its_own_way(model: Any, replaced: Collection[str]) -> bool:
    """Return whether a method that makes its steps is not that of Keras, `replaced` ones aside."""
    if (vars(model).keys() - set(replaced)) & set(STEP_METHODS):
        return True
    return any(
        getattr(type(model), name) is not getattr(keras.Model, name)
        for name in (*STEP_METHODS, "make_train_function")
    )
