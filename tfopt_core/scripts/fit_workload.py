"""A call of `fit` as a workload, which can be built, timed and replayed with a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Resident
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower_stages
from tfopt_core.errors import PluginError, PreparationFailed, WorkloadError, describe
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import PrecisionPolicy
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without
from tfopt_core.scripts.call import FitCall
from tfopt_core.scripts.compiled import Compiled, compiled_of
from tfopt_core.scripts.fit_data import FitData, unchanged
from tfopt_core.scripts.limits import stopping_after
from tfopt_core.scripts.running import place_now
from tfopt_core.training.build import Built, unseen_by_the_script
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit_monitor import with_data_loss
from tfopt_core.training.input.sources import batches_counted, counted_as, ended_after, weighed
from tfopt_core.training.job import Job
from tfopt_core.training.loops.traces import why_as_traced
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.training.model.layers import nested_layers
from tfopt_core.training.model.loss_scaling import prepare_scaling, with_scaled_step
from tfopt_core.training.model.precision import apply_precision, keep_in_float32
from tfopt_core.training.timed_function import TimedFunction
from tfopt_core.training.workload import Workload

BASELINE = "the script as it is"
# The most steps of a dry build in one call of the train function.
DRY_STEPS = 4


@attrs.frozen(kw_only=True, eq=False)
class FitWorkload(Workload):
    """A call of `fit`, with the script's compiled model.

    Every build uses that same model: the changes of one stack are removed before the next build.

    :param session: the `Session` of the script, which makes these workloads.
    :param own_plans: of the script's own data, of which `train` and `validation` may be a part.
    """

    call: FitCall
    data: FitData
    compiled: Compiled
    session: Any
    own_plans: Mapping[str, DataPlan]

    @classmethod
    def of(
        cls, session: Any, call: FitCall, *, ended: bool = False, batches: int | None = None
    ) -> FitWorkload:
        """Return the workload of a call.

        :param ended: whether to end endless data after the steps of an epoch, for tools that read
            all of them.
        :param batches: the most batches of a pass over a `tf.data.Dataset`, None for all.
        :raises WorkloadError: if the installed Keras does not show what `fit` does with the data.
        """
        if why_without("script-fits"):
            raise WorkloadError(why_without("script-fits"))
        reads = ended or bool(session.job.plugins)
        counted = _own_strategy(call, session) is None
        data = FitData(call, session.run.seed, session.shuffle_draws, reads, counted)
        data.check()
        own = {split: data.plan(split) for split in call.splits}
        if ended:
            own["train"] = ended_after(own["train"], call.steps_per_epoch)
        plans = own
        if batches is not None:
            plans = {split: data.first(split, plan, batches) for split, plan in own.items()}
        return cls(
            train=plans["train"],
            validation=plans.get("validation"),
            build_model=lambda: call.model,
            loss=call.model.loss if call.model.compiled else None,
            epochs=max(1, call.epochs),
            batch_size=plans["train"].batch_size or 1,
            shuffle=bool(call.arguments["shuffle"]),
            class_weight=data.class_weight,
            callbacks=lambda: call.callbacks,
            baseline=BASELINE,
            call=call,
            data=data,
            compiled=compiled_of(call.model),
            session=session,
            own_plans=own,
        )

    @property
    def own_strategy(self) -> Any:
        """The strategy within which the script has built the model, None without one."""
        return _own_strategy(self.call, self.session)

    @property
    def is_cut(self) -> bool:
        """Whether an epoch has fewer batches than in the script."""
        return self.call.shortened or not unchanged(self.train, self.own_plans["train"])

    def built_anew(self) -> Any:
        """Return the script's training data set built anew from its stages; None for other data,
        and where a shuffle is in a part that stays as it is, and so would go on."""
        given = self.call.splits["train"][0]
        if not isinstance(given, tf.data.Dataset):
            return None
        anew = lower_stages(self.train.stages)
        if not {*walk.reshuffling(given)}.isdisjoint(walk.reshuffling(anew)):
            return None
        self.go_on("train", anew)
        return anew

    def go_on(self, split: str, replacement: Any) -> None:
        """Have a data set begin with the epoch that comes next in the script's own."""
        self.session.shuffle_draws.follow(self.call.splits[split][0], replacement)

    def reported_metrics(self, built: Built) -> tuple[str, ...]:
        """Return the names of the metrics at the end of an epoch, from a fit of one call of the
        train function with at most `DRY_STEPS` steps.

        :raises WorkloadError: if a step fails.
        :raises PreparationFailed: if one fails and a plugin may be the cause.
        """
        # a call may otherwise be a whole epoch, as in a resident loop
        steps = min(DRY_STEPS, built.training.steps_per_execution)
        training = attrs.evolve(built.training, steps_per_execution=steps)
        built = attrs.evolve(built, training=training)
        timed = TimedFunction(built, distribution_of(built))
        timed.install()
        timed.begin_fit()
        once: dict[str, Any] = {"epochs": self.call.initial_epoch + 1, "validation_freq": 1}
        if self.validation is not None and self.call.arguments["validation_steps"] is None:
            once["validation_steps"] = 1
        try:
            replaced, changed = self.data_of_fit(built, timed)
            with built.stack.changes_noted():
                history = self.call.make(
                    [stopping_after(1)], replaced, **changed, verbose=0, **once
                )
        except Exception as error:
            said = f"{place_now()}fit {self.call.number} {describe(error)}"
            if hasattr(error, "__notes__"):  # a plugin may have caused it
                raise PreparationFailed(said) from error  # of which the script hides none
            raise WorkloadError(said) from error
        finally:
            timed.uninstall()
        last = {name: values[-1] for name, values in history.history.items()}
        return tuple(with_data_loss(last, built.model))

    @unseen_by_the_script()
    def built(self, job: Job) -> Built:
        """Call every hook of a fit, and set the results on the model.

        :raises PluginError, PluginRefused: naming the plugin that failed.
        :raises WorkloadError: for a change that is impossible in a script.
        """
        session, model = self.session, self.call.model
        self.compiled.put_back(model)
        before = {"train": self.train}
        if self.validation is not None:
            before["validation"] = self.validation
        options = self.compiled.options(model, self.call.callbacks)
        stack = Stack(job.plugins, session.changes)
        run = self._context(job, stack)
        precision = session.precision
        if precision.scope == "layers":
            # set by each fit, so a probe may have resolved what was unknown as the script began
            precision = stack.configure_precision(run)
        plans = {split: stack.build_dataset(run, split, plan) for split, plan in before.items()}
        with run.strategy.scope():
            if stack.wrap_model(run, model, keras.Model) is not model:
                [*_, by] = (c.plugin for c in stack.all_changes if c.hook == "wrap_model")
                reason = (
                    "returned another model than the script's; it may only change that one in place"
                )
                raise PluginError(str(by), "wrap_model", reason)
            _with_precision(model, precision, session.default_policy)
        plans = {split: plan.for_model(model) for split, plan in plans.items()}
        self.compiled.model_stages = tuple(s for plan in plans.values() for s in plan.model_stages)
        run = self.data.in_run(run, self.own_plans, plans, stack)
        with run.strategy.scope():
            training = stack.configure_training(run, model, options)
            if training.steps_per_execution != options.steps_per_execution:
                own = options.steps_per_execution
                training = _whole_calls(training, self.call.steps_per_epoch, own)
            try:
                self.compiled.apply(model, options, training, precision)
                training = with_scaled_step(model, training, precision, run.replicas)
                prepare_scaling(model, precision, run.replicas)
            except BaseException:
                self.compiled.put_back(model)
                raise
        built = Built(
            job, self, stack, run, plans, model, precision, training,
            batches={
                split: batches_counted(self._batches(split), plan) for split, plan in plans.items()
            },
            steps_given=self.call.steps_per_epoch is not None,
            keeps_step=why_as_traced(model),
            shuffle_draws=session.shuffle_draws,
        )  # fmt: skip
        if loop_of(built).kind != "resident" and plans["train"].find(Resident) is not None:
            # no loop trains on what is held: the data stay as they were
            built.plans = {split: plan.without(Resident) for split, plan in plans.items()}
            built.run = self.data.in_run(run, self.own_plans, built.plans, stack)
        return built

    def replaced(self, built: Built) -> dict[str, Any]:
        """Return the data sets that replace the script's own data, by split."""
        # those that can be read only once, and are being read already, go on
        readers = self.call.readers.items()
        begun = {split for split, reader in readers if reader.cache_info().currsize}
        return {
            split: counted_as(built.run.datasets[split], built.batches[split])
            for split, plan in built.plans.items()
            if not unchanged(plan, self.own_plans[split]) or split in begun
        }

    def data_of_fit(
        self, built: Built, timed: TimedFunction
    ) -> tuple[dict[str, Any], dict[str, None]]:
        """Return the data sets that `fit` is given in the place of the script's own, and the other
        arguments that change: it weighs no classes where the data are weighed already."""
        unweighed = {"class_weight": None}
        if timed.distribution is not None:
            return {split: timed.distribution.data(split) for split in built.plans}, unweighed
        replaced, passes = self.replaced(built), timed.passes
        if passes is not None:
            batches = built.batches["train"]
            if batches is not None:  # Keras counts them, though one element is a whole pass
                passes = passes.apply(tf.data.experimental.assert_cardinality(batches))
            replaced["train"] = counted_as(passes, batches)
            return replaced, unweighed
        if "train" not in replaced:
            return replaced, {}
        replaced["train"], left = weighed(replaced["train"], self.class_weight)
        return replaced, unweighed if left is None else {}

    def _context(self, job: Job, stack: Stack) -> RunContext:
        begun: RunContext = self.session.run
        strategy = self.own_strategy or begun.strategy
        return attrs.evolve(
            begun,
            strategy=strategy,
            replicas=strategy.num_replicas_in_sync,
            fit_index=self.call.number - 1,
            epochs=max(1, self.call.epochs),
            batch_size=self.train.batch_size,
            settings=stack.settings,
            states={plugin: dict(state) for plugin, state in begun.states.items()},
            steps_per_epoch=self.call.steps_per_epoch or self._batches("train"),
        )

    def _batches(self, split: str) -> int | None:
        """Return how many batches Keras counts in the data of the fit; None if it does not."""
        known = self.data.batches(split)
        plan = self.train if split == "train" else self.validation
        assert plan is not None
        is_whole = known is None or unchanged(plan, self.own_plans[split])
        return known if is_whole else plan.cardinality


def _own_strategy(call: FitCall, session: Any) -> Any:
    if why_without("own-strategy"):
        return None
    own = call.model._distribute_strategy
    return None if own is session.stack_strategy else own


def _with_precision(model: Any, precision: PrecisionPolicy, default: Any) -> None:
    """Apply the policy to the script's model, and drop what was traced in another one."""
    if precision.scope == "global":
        keep_in_float32(model, precision)
        return
    parts = [model, *nested_layers(model)]
    before = [part.compute_dtype for part in parts]
    apply_precision(model, precision, default)
    if before != [part.compute_dtype for part in parts]:
        model.train_function = model.test_function = model.predict_function = None


def _whole_calls(training: Any, steps_per_epoch: int | None, own: int) -> Any:
    """Return the options with steps per call that divide the steps of an epoch, so that no call
    reaches past the end of an epoch, and no fewer than the script's own: where the training is told
    to stop, `fit` makes one more call.

    :param own: the steps of a call that the script asks for. Keras makes whole calls, so that an
        epoch may have more steps than are given; a call holds some of them whole.
    """
    asked = training.steps_per_execution
    if steps_per_epoch is None:
        return attrs.evolve(training, steps_per_execution=max(asked, own))
    calls = -(-steps_per_epoch // own)
    fits = (n for n in range(min(max(1, asked // own), calls), 0, -1) if calls % n == 0)
    return attrs.evolve(training, steps_per_execution=own * next(fits))
