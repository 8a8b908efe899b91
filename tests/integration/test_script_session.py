"""A stack set on trainings of this process: what stands in for `compile` and `fit`, and its end."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import refuse_stages_behind_a_copy, script_job
from support.lazy_modules import keras, tf
from support.real_process import python
from support.small_workloads import pydataset
from tfopt_data.cache import Cache
from tfopt_data.frozen_features import FrozenFeatures
from tfopt_data.prefetch_to_device import PrefetchToDevice
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident
from tfopt_runtime.split_batch import SplitBatch
from tfopt_runtime.xla import Xla
from tfopt_training.gradient_accumulation import GradientAccumulation
from tfopt_training.lr_schedule import LrSchedule

from tfopt_core.errors import PluginError, PreparationFailed, WorkloadError
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.certifying import Replays
from tfopt_core.plugins import Control, Effect, Plugin, RunContext, hookimpl
from tfopt_core.scripts.fitting import train_fit
from tfopt_core.scripts.session import Session
from tfopt_core.training.job import Job
from tfopt_core.trials.replay import replay
from tfopt_core.trials.request import Variant
from tfopt_core.workers.task import ReplayTask

SEED = 5


@contextmanager
def session(folder: Path, *plugins: Any, **spec: Any) -> Iterator[tuple[Session, list[Any]]]:
    """A session over these plugins, and the fits that it has seen."""
    job = script_job(*plugins, folder=folder, seed=SEED, **spec)
    fits: list[Any] = []

    def on_fit(fit: Any, started: int) -> Any:
        seen, history = train_fit(fit, fit.built(job), started, lambda message: None)
        fits.append(seen)
        return history

    made = Session(job, on_fit)
    try:
        made.begin()
        yield made, fits
    finally:
        made.end()


def examples(count: int = 96) -> tuple[Any, Any]:
    source = np.random.default_rng(1)
    x = source.normal(size=(count, 8)).astype("float32")
    return x, (x.sum(axis=1) > 0).astype("int32")


def network(**options: Any) -> Any:
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # plain SGD, of which the fewest operations are traced
    model.compile(**{"optimizer": "sgd", "loss": loss, "metrics": ["accuracy"], **options})
    return model


def histories(*fits: dict[str, Any]) -> list[dict[str, list[float]]]:
    made = network()
    found = []
    for arguments in fits:
        keras.utils.set_random_seed(SEED)
        found.append(made.fit(verbose=0, **arguments).history)
    return found


def forms() -> dict[str, Any]:
    keras.utils.set_random_seed(SEED)  # a shuffle's own seed is combined with the global one
    x, y = examples()
    batches = pydataset(*((x[at : at + 32], y[at : at + 32]) for at in range(0, 96, 32)))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96, seed=3).batch(20)
    return {
        "arrays": {"x": x, "y": y, "batch_size": 20, "epochs": 2},
        "steps": {"x": x, "y": y, "steps_per_epoch": 3, "epochs": 2},
        "data set": {"x": dataset, "validation_data": dataset.take(2), "epochs": 2},
        "pydataset": {"x": batches, "epochs": 2, "shuffle": False},
    }


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["arrays", "data set"])
def test_class_weights_are_in_the_data_before_their_copy_to_a_device(tmp_path, form, monkeypatch):
    def fit() -> dict[str, Any]:
        x, y = examples()
        of_form = {"x": x, "y": y, "shuffle": False}  # whose order the copy changes
        if form == "data set":
            of_form = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(32)}
        return {**of_form, "class_weight": {0: 1.0, 1: 3.0}, "epochs": 2}

    refuse_stages_behind_a_copy(monkeypatch)
    alone = histories(fit())
    with session(tmp_path, PrefetchToDevice(device="/cpu:0")) as (_, fits):
        assert histories(fit()) == alone
    assert fits[0].effects["prefetchtodevice"].applied


def shuffled_before_a_look() -> Any:
    """A data set whose shuffle has drawn twice before `fit`, as where a layer is adapted to it."""
    keras.utils.set_random_seed(SEED)
    data = tf.data.Dataset.from_tensor_slices(examples()).map(lambda x, y: (x + 1.0, y))
    data = data.shuffle(96).batch(20)
    next(iter(data.take(1)))
    data.reduce(0, lambda count, batch: count + 1)
    return data


@attrs.frozen
class FitOfSession:
    """Stands in for `Processes`: replays one fit, each time in a session of its own."""

    folder: Path
    plugins: tuple[Any, ...]
    fit: Callable[[], Any]

    @property
    def request(self) -> Any:
        return SimpleNamespace(folder=self.folder, plugins=self.plugins)

    def replay(self, variant: Any, seed: int, shared: Path, part: Any, **how: Any) -> Any:
        found: list[Any] = []
        with session(self.folder, *(self.plugins if variant.plugins else ())) as (made, _):

            def replay_fit(workload: Any, started: int) -> None:
                call = workload.call.short(2, how["batches"])

                def of_fit(job: Job) -> Any:
                    keras.utils.set_random_seed(SEED)
                    ended, batches = part != "training", how["batches"]
                    return type(workload).of(made, call, ended=ended, batches=batches)

                job = attrs.evolve(made.job, variant=variant.name)
                task = ReplayTask(job=job, replay_folder=shared, part=part, **how)
                found.append(replay(task, print, of_fit))

            made.on_fit = replay_fit
            self.fit()
        return found[0]


def certificate_of(
    folder: Path,
    plugin: Any,
    fit: Callable[[], Any],
    batches: Any = None,
    equivalence: Any = "exact",
) -> Any:
    stack = Variant("full", (StackedPlugin("it", plugin),))
    fits: Any = FitOfSession(folder, (plugin,), fit)
    return Replays(fits, SEED, batches).certificates([(stack, equivalence)])["full"]


@pytest.mark.thorough
def test_a_fit_whose_data_were_read_before_is_replayed_in_their_own_order(tmp_path):
    def fit() -> None:
        data = shuffled_before_a_look()
        network().fit(data.map(lambda x, y: (tf.ensure_shape(x, (None, 8)), y)), verbose=0)

    certificate = certificate_of(tmp_path, Cache(), fit)
    assert certificate.certified, certificate.statement


@attrs.frozen(kw_only=True, eq=False)
class LosesABatch(Plugin):
    @hookimpl
    def build_dataset(self, plan: Any) -> Any:
        return plan.apply(lambda data: data.skip(1), deterministic=True)


@pytest.mark.thorough
def test_examples_that_a_stack_loses_are_told_of_data_that_go_on_each_time_they_are_read(tmp_path):
    def fit() -> None:
        data = tf.data.Dataset.from_tensor_slices(examples()).shuffle(96).ignore_errors().batch(20)
        network().fit(data, verbose=0)

    certificate = certificate_of(tmp_path, LosesABatch(), fit, equivalence="order")
    assert "epoch 1 has 76 examples instead of 96" in certificate.statement


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "batches", "steps"),
    [("arrays", 2, 4), ("data set", None, 10), ("steps", 2, 3), ("pydataset", 2, 3)],
)
def test_a_fit_is_certified_as_it_trains(tmp_path, form, batches, steps):
    # where an epoch has fewer steps than there are batches, the data go on into the second one
    def fit() -> None:
        network().fit(**{"epochs": 3, **forms()[form]}, verbose=0)

    certificate = certificate_of(tmp_path, Chunked(steps=2, xla=False), fit, batches)
    assert certificate.certified, certificate.statement
    assert ("epochs cut down to 2" in certificate.statement) is (batches == 2)
    assert f"certified: {steps} steps" in certificate.statement


def test_precision_is_in_effect_inside_and_not_after(tmp_path):
    with session(tmp_path, MixedPrecision(policy="mixed_bfloat16")) as (_, fits):
        made = network()
        made.fit(*examples(), verbose=0)
        assert [layer.compute_dtype for layer in made.layers] == ["bfloat16", "float32"]
    assert keras.config.dtype_policy().name == "float32"
    assert fits[0].effects["mixedprecision"].applied


def test_the_layers_of_a_built_model_get_the_policy_when_fit_is_called(tmp_path):
    plugin = MixedPrecision(policy="mixed_bfloat16", scope="layers")
    with session(tmp_path, plugin) as (_, fits):
        made = network()
        x, y = examples()
        made.predict(x, verbose=0)  # traced in float32
        assert [layer.compute_dtype for layer in made.layers] == ["float32", "float32"]
        made.fit(x, y, epochs=1, verbose=0)
        made.fit(x, y, epochs=1, verbose=0)
        assert [layer.compute_dtype for layer in made.layers] == ["bfloat16", "float32"]
        assert keras.config.dtype_policy().name == "float32"
        assert made.predict_function is None  # to be traced anew
    assert [fit.effects["mixedprecision"].applied for fit in fits] == [True, True]


def test_everything_is_given_back(tmp_path):
    before = (keras.Model.fit, keras.Model.compile, keras.Model.train_on_batch)
    update = keras.optimizers.Optimizer.apply
    with session(tmp_path):
        assert keras.Model.fit is not before[0]
    assert (keras.Model.fit, keras.Model.compile, keras.Model.train_on_batch) == before
    assert keras.optimizers.Optimizer.apply is update


def test_a_step_that_a_script_set_on_its_model_stays(tmp_path):
    made, made_steps = network(), []
    of_keras = made.train_step

    def step(data: Any) -> Any:
        made_steps.append(1)
        return of_keras(data)

    made.train_step = step
    with session(tmp_path):
        x, y = examples()
        made.fit(x, y, epochs=1, verbose=0)
    assert made_steps
    assert made.train_step is step


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param((), id="own", marks=pytest.mark.thorough),
        pytest.param((Chunked(steps=3, xla=False),), id="chunked"),
    ],
)
def test_a_second_fit_of_a_model_traces_nothing(tmp_path, plugins):
    with session(tmp_path, *plugins) as (_, fits):
        made = network()
        for _ in range(3):
            made.fit(*examples(), verbose=0)
    traced = [[block.cold for block in fit.blocks].count("trace") for fit in fits]
    assert traced[0] > 0
    assert traced[1:] == [0, 0]


@pytest.mark.thorough
def test_validations_that_a_plugin_wraps_are_traced_in_each_fit_and_given_back(tmp_path):
    class Wraps(Plugin):
        traced = 0

        @hookimpl
        def configure_training(self, options):
            def wrap(own: Any) -> Any:
                def step(data: Any) -> Any:
                    Wraps.traced += 1
                    return own(data)

                return step

            return options.with_wrapped_test_step(wrap)

    with session(tmp_path, attrs.frozen(kw_only=True, eq=False)(Wraps)()):
        made = network()
        made.evaluate(*examples(), verbose=0)
        own = made.test_function
        assert Wraps.traced == 0
        for fits in (1, 2):
            made.fit(*examples(), validation_data=examples(), verbose=0)
            assert Wraps.traced >= fits
            assert made.test_function is own
            assert "test_step" not in vars(made)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "plugin",
    [GradientAccumulation(steps=2), FrozenFeatures(), SplitBatch(parts=2, xla=False)],
    ids=lambda plugin: type(plugin).__name__,
)
def test_a_second_fit_has_the_effect_that_an_earlier_one_traced(tmp_path, plugin):
    with session(tmp_path, plugin) as (_, fits):
        made = network()
        made.layers[0].trainable = False
        made.compile(optimizer="sgd", loss=made.loss)
        data = tf.data.Dataset.from_tensor_slices(examples()).batch(16)
        for _ in range(2):
            made.fit(data, epochs=2, verbose=0)
    found = [fit.effects[type(plugin).__name__.lower()] for fit in fits]
    assert [effect.applied for effect in found] == [True, True], found


def test_a_model_that_was_compiled_before_trains_with_the_stack(tmp_path):
    made = network()
    with session(tmp_path, Chunked(steps=3, xla=False)) as (_, fits):
        made.fit(*examples(), verbose=0)
    assert fits[0].effects["chunked"].applied


def test_a_loaded_model_keeps_how_it_was_compiled(tmp_path):
    network(optimizer="adam").save(tmp_path / "model.keras")
    with session(tmp_path):
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert type(loaded.optimizer) is keras.optimizers.Adam
        loaded.fit(*examples(), verbose=0)


def test_a_schedule_replaces_the_rate_of_a_fresh_optimizer_and_is_kept_by_the_next_fit(tmp_path):
    with session(tmp_path, LrSchedule(schedule="cosine", peak=0.01)) as (_, fits):
        made = network()
        made.fit(*examples(), epochs=2, verbose=0)
        first = made.optimizer
        made.fit(*examples(), epochs=1, verbose=0)
    assert made.optimizer is first
    assert int(first.iterations) == 9
    assert fits[0].effects["lrschedule"].applied


def test_a_fit_within_a_fit_is_part_of_it(tmp_path):
    inner = network()

    class Distill(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            inner.fit(*examples(), verbose=0)

    with session(tmp_path) as (_, fits):
        network().fit(*examples(), verbose=0, callbacks=[Distill()])
    assert len(fits) == 1


def test_a_model_with_a_fit_of_its_own_passes_through(tmp_path):
    class Own(keras.Sequential):
        def fit(self, *given: Any, **named: Any) -> Any:
            return super().fit(*given, **named)

    with session(tmp_path) as (_, fits):
        made = Own([keras.layers.Dense(1)])
        made.compile("sgd", "mse")
        made.fit(*examples(), verbose=0)
    assert len(fits) == 1


def test_a_nan_loss_is_noted_and_ends_nothing(tmp_path):
    with session(tmp_path) as (_, fits):
        made = network()
        made.compile("sgd", loss=lambda true, predicted: float("nan") * predicted)
        made.fit(*examples(), epochs=2, verbose=0)
    assert "after epoch 1" in str(fits[0].diverged)
    assert fits[0].epochs == 2


def test_an_uncompiled_model_is_said(tmp_path):
    with session(tmp_path), pytest.raises(WorkloadError, match="is not compiled"):
        keras.Sequential([keras.layers.Dense(1)]).fit(*examples(), verbose=0)


@functools.cache
def replacing() -> Any:
    @attrs.frozen(kw_only=True, eq=False)
    class Other(Plugin):
        @hookimpl
        def wrap_model(self, run: RunContext, model: Any) -> Any:
            return keras.models.clone_model(model)

    return Other


def test_another_model_than_the_script_s_is_refused(tmp_path):
    with session(tmp_path, replacing()()), pytest.raises(PluginError, match="another model"):
        network().fit(*examples(), verbose=0)


def test_plugins_hear_of_epochs_and_the_first_to_stop_names_the_reason(tmp_path):
    @attrs.frozen(kw_only=True, eq=False)
    class Stop(Plugin):
        @hookimpl
        def on_epoch_end(self, run: RunContext, epoch: int, control: Control) -> None:
            if epoch == 1:
                control.stop("enough")
                control.stop("too much")

        @hookimpl
        def report_effect(self, run: RunContext) -> Effect:
            return Effect.applied_as(f"fit {run.fit_index}, {run.epochs} epochs")

    with session(tmp_path, Stop()) as (_, fits):
        history = histories(forms()["arrays"] | {"epochs": 5})[0]
    assert len(history["loss"]) == 2
    assert fits[0].stop_reason == "enough"
    assert fits[0].effects["stop"].detail == "fit 0, 5 epochs"


@pytest.mark.thorough
def test_whatever_a_callback_raises_the_model_is_as_it_was_compiled(tmp_path):
    class Failing(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise KeyboardInterrupt

    with session(tmp_path, Xla(), MixedPrecision(policy="mixed_bfloat16")) as (_, fits):
        made = network()
        with pytest.raises(KeyboardInterrupt):
            made.fit(*examples(), verbose=0, callbacks=[Failing()])
        assert made.jit_compile is False
        assert "train_step" not in vars(made)
        made.fit(*examples(), verbose=0)  # the script goes on
    assert len(fits) == 1


def test_after_the_session_a_model_trains_as_plain_keras_has_it(tmp_path):
    with session(tmp_path, Chunked(steps=3, xla=False)):
        made = network()
        made.fit(*examples(), verbose=0)
    assert made.train_function is None
    before = int(made.optimizer.iterations)
    made.fit(*examples(), verbose=0)
    assert int(made.optimizer.iterations) == before + 3


LET_GO = """
import gc, sys, weakref
from pathlib import Path
from types import SimpleNamespace
import keras
sys.path[:0] = sys.argv[2:]
from test_script_session import examples, network, session

with session(Path(sys.argv[1])):
    made = network()
    x, y = examples()
    made.fit(x, y, verbose=0)
    model, data = weakref.ref(made), weakref.ref(x)
    del made, x, y
    keras.backend.clear_session()
    gc.collect()
    print(model(), data())
"""


def test_models_and_their_data_are_let_go(tmp_path):
    # in a process of its own: here it takes long to look through what other tests have left
    here = Path(__file__).parent
    done = python("-c", LET_GO, tmp_path, here, here.parent, cwd=tmp_path)
    assert done.out.split() == ["None", "None"], done.err


@contextmanager
def cut_short(folder: Path) -> Iterator[list[Any]]:
    """The fits of a session, each of which ends after its first steps."""
    with session(folder) as (made, fits):

        def cut(fit: Any, started: int) -> Any:
            seen, history = train_fit(
                fit, fit.built(made.job), started, lambda message: None,
                cuts_short=lambda blocks: True,
            )  # fmt: skip
            fits.append(seen)
            return history

        made.on_fit = cut
        yield fits


def test_a_run_that_is_cut_short_validates_as_the_script_does(tmp_path):
    x, y = examples(1200)
    endless = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat()
    with cut_short(tmp_path) as fits:
        network().fit(
            x, y, batch_size=1, epochs=2, validation_data=endless, validation_steps=2, verbose=0
        )
    [seen] = fits
    assert seen.cut_short
    assert len(seen.validation_seconds) == 1


def test_a_script_gets_histories_of_the_epochs_that_it_asked_for_from_fits_that_are_cut(tmp_path):
    x, y = examples(1200)
    with cut_short(tmp_path) as seen:
        made = network()
        data = {"x": x, "y": y, "batch_size": 1, "validation_data": (x[:9], y[:9]), "verbose": 0}
        first = made.fit(epochs=10, validation_freq=5, **data)
        second = made.fit(epochs=15, initial_epoch=first.epoch[-1] + 1, **data)
    assert all(fit.cut_short for fit in seen)
    assert first.epoch == list(range(10))
    assert {name: len(values) for name, values in first.history.items()} == {
        "accuracy": 10, "loss": 10, "val_accuracy": 2, "val_loss": 2,
    }  # fmt: skip
    assert second.epoch == [10, 11, 12, 13, 14]
    assert {len(values) for values in second.history.values()} == {5}
    assert made.history is second
    assert [fit.repeated_epochs for fit in seen] == [9, 4]
    # what is kept of the training itself is what was trained
    assert all(len(fit.history.get("loss", [])) == 0 for fit in seen)


def test_a_quick_look_gives_the_script_as_many_epochs_as_it_asked_for(tmp_path):
    x, y = examples()
    with session(tmp_path, max_steps=2) as (_, fits):
        history = network().fit(x, y, epochs=4, verbose=0)
    assert fits[0].steps == 2
    assert len(history.history["loss"]) == len(history.epoch) == 4
    assert history.params == {"verbose": 0, "epochs": 4, "steps": 3}


@pytest.mark.parametrize("plugin", [Resident(xla=False), None], ids=["resident", "own"])
def test_a_dry_build_makes_a_few_steps_however_many_a_call_makes(tmp_path, plugin):
    plugins = () if plugin is None else (plugin,)
    options = {"steps_per_execution": 24} if plugin is None else {}
    found = []
    with session(tmp_path, *plugins) as (made_session, _):

        def dry(fit: Any, started: int) -> Any:
            built = fit.built(made_session.job)
            before = built.model.steps_per_execution
            found.append(fit.reported_metrics(built))
            assert built.model.steps_per_execution == before
            effects = built.stack.report_effects(built.run, built.model)
            assert all(effect.applied for effect in effects.values()), effects

        made_session.on_fit = dry
        made = network(**options)
        x, y = examples()
        made.fit(x, y, batch_size=4, validation_data=(x, y), verbose=0)
    assert set(found[0]) == {"loss", "accuracy", "val_loss", "val_accuracy", "val_data_loss"}
    assert int(made.optimizer.iterations) == 4


def test_an_error_of_a_dry_fit_that_a_plugin_may_have_caused_is_none_that_a_script_can_hide(
    tmp_path,
):
    def broken(y: Any, predicted: Any) -> Any:
        error = ValueError("no loss")
        error.add_note("a plugin has changed it")
        raise error

    with session(tmp_path) as (made_session, _):
        made_session.on_fit = lambda fit, started: fit.reported_metrics(fit.built(made_session.job))
        made = network(loss=broken)
        with pytest.raises(PreparationFailed, match="fit 1 raised ValueError: no loss; a plugin"):
            made.fit(*examples(), verbose=0)


def test_effects_of_several_fits_say_where_a_plugin_had_none(tmp_path):
    from tfopt_core.scripts.fitting import effects_of

    class EachBatch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            pass

    with session(tmp_path, Chunked(steps=3, xla=False)) as (_, fits):
        made = network()
        made.fit(*examples(), verbose=0)
        made.fit(*examples(), verbose=0, callbacks=[EachBatch()])
    said = effects_of(fits)["chunked"]
    assert said.applied
    assert said.detail.startswith("in 1 of 2 fits: 3 steps a call")
    assert "not in fit 2: the callback EachBatch acts on every batch" in said.detail


def test_a_data_set_that_maps_its_arrays_is_known_by_what_it_yields(tmp_path):
    x, y = examples()
    mapped = tf.data.Dataset.from_tensor_slices((x[:, 0], y)).batch(32)
    mapped = mapped.map(lambda a, b: (tf.repeat(a[:, None], 8, axis=1), b))
    specs = []
    with session(tmp_path) as (made_session, _):
        own = made_session.on_fit

        def look(fit: Any, started: int) -> Any:
            specs.append(fit.built(made_session.job).run.element_spec)
            return own(fit, started)

        made_session.on_fit = look
        network().fit(mapped, verbose=0)
    assert specs == [mapped.element_spec]
