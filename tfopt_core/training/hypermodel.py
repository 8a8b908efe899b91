"""Make a `Workload` of a model for Keras Tuner: a `HyperModel`, or a function `build(hp)`.

Keras Tuner itself is the user's: tfopt imports it only for such a workload.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError, describe
from tfopt_core.records.hyperparameters import Hyperparameter
from tfopt_core.training.declared_ranges import declared, unfit
from tfopt_core.training.layer_names import count_names_from_first_build
from tfopt_core.training.workload import Workload

# How long branches of a model are opened, by a build for each value of a choice.
EXPLORING_SECONDS = 60.0
# Arguments of `compile` that a workload takes over; tfopt, or a plugin, decides about the others.
COMPILED = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics")
NEEDED = (
    '{name} is built with Keras Tuner\'s "hp", and keras_tuner is not installed; run: '
    "pip install keras-tuner"
)
DATA = (
    '{name} takes Keras Tuner\'s "hp"; name its data too: data = "file.py:function" in [workload], '
    "a function that returns (train, validation)"
)
BASELINE = "stock fit of the model that Keras Tuner's build(hp) makes with these values"


@attrs.frozen(kw_only=True)
class HyperModelWorkload(Workload):
    """A workload whose model declares hyperparameters, which are its options.

    :param explore: returns them, and whether these are all.
    """

    explore: Callable[[], tuple[tuple[Hyperparameter, ...], bool]]


def takes_hp(factory: Any) -> bool:
    """Return whether this is a model for Keras Tuner, and no factory of a workload."""
    kind = factory if isinstance(factory, type) else type(factory)
    if any(base.__name__ == "HyperModel" for base in kind.__mro__):
        return True
    try:
        return next(iter(inspect.signature(factory).parameters), "") == "hp"
    except (TypeError, ValueError):
        return False


def hypermodel_workload(
    name: str, model: Any, load_data: Callable[[], Any], options: Mapping[str, Any]
) -> HyperModelWorkload:
    """Return the workload of a model for Keras Tuner, with these values of its hyperparameters.

    :param name: of the model, in messages.
    :param model: a `HyperModel`, its class, or a function `build(hp)`.
    :param load_data: returns (train, validation), as `Workload` takes them.
    :raises WorkloadError: if Keras Tuner is missing, the model is none, or a value does not fit.
    """
    space = _Space(name, _build_function(name, model), options)
    train, validation = _split(load_data)
    count_names_from_first_build(space.build_model)
    compiled = space.check()
    return HyperModelWorkload(
        train=train, validation=validation, build_model=space.build_model,
        optimizer=compiled.get("optimizer", "rmsprop"), loss=compiled.get("loss"),
        loss_weights=compiled.get("loss_weights"),
        metrics=_listed(name, compiled, "metrics"),
        weighted_metrics=_listed(name, compiled, "weighted_metrics"),
        baseline=BASELINE, explore=space.explored,
    )  # fmt: skip


@attrs.define(eq=False)
class _Space:
    """The hyperparameters that `build(hp)` declares, beside the values that the recipe gives."""

    name: str
    build: Callable[[Any], Any]
    options: Mapping[str, Any]
    _values: dict[str, Any] = attrs.field(factory=dict)

    def build_model(self) -> Any:
        """Return the model with the values of the recipe."""
        return self.build(self._hp(self._values))

    def check(self) -> dict[str, Any]:
        """Build the model once, and check it and the recipe's values. Return what it compiles with.

        :raises WorkloadError: for a model that is none or is not compiled, and a value that does
            not fit.
        """
        import keras

        hp, calls = self._hp(self.options), list[tuple[Any, dict[str, Any]]]()
        with _recorded_compile(calls):
            model = self._built(hp)
        if not isinstance(model, keras.Model):
            raise WorkloadError(
                f"{self.name} returned a {type(model).__name__}; return a compiled keras.Model"
            )
        compiled = [arguments for one, arguments in calls if one is model]
        if not compiled:
            raise WorkloadError(f"{self.name} returned a model that is not compiled; compile it")
        self._check_options(hp)
        # an inactive one has no value, as Keras Tuner has it
        active = {one.name for one in hp.space if hp.is_active(one)}
        self._values = {key: value for key, value in self.options.items() if key in active}
        others = [key for key in compiled[-1] if key not in COMPILED]
        if others:
            raise WorkloadError(
                f'{self.name} compiles its model with "{others[0]}", which is left to tfopt and '
                "its plugins; remove it"
            )
        return compiled[-1]

    def explored(self) -> tuple[tuple[Hyperparameter, ...], bool]:
        """Return the hyperparameters, after builds that open the branches of the model, and whether
        there was time for each."""
        end, builds = perf_counter() + EXPLORING_SECONDS, self._explore()
        hp, whole = next(builds), False
        while perf_counter() < end and not whole:
            following = next(builds, None)
            hp, whole = following or hp, following is None
        return declared(self.name, hp.space, self.options), whole

    def _check_options(self, hp: Any) -> None:
        unknown = set(self.options) - {one.name for one in hp.space}
        if unknown:
            # another value may open the branch that declares it
            for explored in self._explore():
                hp = explored
                if not set(self.options) - {one.name for one in hp.space}:
                    break
        known = {one.name: one for one in hp.space}
        for key, value in self.options.items():
            if key not in known:
                raise WorkloadError.unknown(self.name, key, known, "hyperparameter")
            why = unfit([one for one in hp.space if one.name == key], value)
            if why:
                raise WorkloadError(f'{self.name}: hyperparameter "{key}" {why}', option=key)

    def _explore(self) -> Iterator[Any]:
        """Yield the hyperparameters after each build that may declare further ones."""
        hp = self._hp(self.options)
        self._built(hp)
        yield hp
        tried: set[tuple[Any, ...]] = set()
        while opening := next(_openings(hp.space, self.options, tried), None):
            tried.add(opening)
            hp.values = {**self.options, **dict(opening)}
            for one in hp.space:
                if hp.is_active(one):
                    hp.values.setdefault(one.name, one.default)
            try:
                self._built(hp)
            except WorkloadError:
                continue  # no model has these values; what it declared before stays known
            yield hp

    def _built(self, hp: Any) -> Any:
        try:
            return self.build(hp)
        except WorkloadError:
            raise
        except NotImplementedError as error:
            raise WorkloadError(
                f"{self.name} has no build(hp), which makes and compiles the model; write one"
            ) from error
        except Exception as error:
            raise WorkloadError(f"{self.name} {describe(error)}") from error

    def _hp(self, values: Mapping[str, Any]) -> Any:
        hp = _keras_tuner(self.name).HyperParameters()
        hp.values = dict(values)
        return hp


def _openings(
    space: Sequence[Any], options: Mapping[str, Any], tried: set[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield values, as pairs of name and value, that may open a branch that no build has taken:
    each other choice, and the most of what counts, under the conditions of the hyperparameter.

    :param options: the values that the recipe gives, with which the first build was made.
    """
    for one in space:
        given = tuple((condition.name, condition.values[0]) for condition in one.conditions)
        kind = type(one).__name__
        if kind in ("Choice", "Boolean"):
            values = one.values if kind == "Choice" else (False, True)
        else:
            values = [one.max_value] if kind == "Int" else []
        for value in [*values, *([one.default] if given else [])]:
            opening = (*given, (one.name, value))
            if opening not in tried and (given or value != options.get(one.name, one.default)):
                yield opening


def _keras_tuner(name: str) -> Any:
    try:
        return importlib.import_module("keras_tuner")
    except ImportError as error:
        raise WorkloadError(NEEDED.format(name=name)) from error


def _build_function(name: str, model: Any) -> Callable[[Any], Any]:
    """Return the function that takes `hp`."""
    tuner = _keras_tuner(name)
    if isinstance(model, type):
        if not callable(getattr(model, "build", None)):
            raise WorkloadError(f"{name} has no build(hp), which makes the model; write one")
        try:
            model = model()
        except Exception as error:
            raise WorkloadError(
                f"{name} {describe(error)}; where its class takes arguments, make an instance in "
                "the file and name that"
            ) from error
    if not isinstance(model, tuner.HyperModel):
        function: Any = getattr(model, "build", model)
        if not callable(function):
            raise WorkloadError(f"{name} is neither a HyperModel nor a function build(hp)")
        return function  # type: ignore[no-any-return]
    if type(model).fit is not tuner.HyperModel.fit:
        raise WorkloadError(
            f"{name} has a fit of its own, and tfopt trains with the recipe's epochs and "
            "batch_size; remove it (batch_size may stand in [tune.options])"
        )

    def build(hp: Any) -> Any:
        model.declare_hyperparameters(hp)
        return model.build(hp)

    return build


def _split(load_data: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the training and the validation data.

    :raises WorkloadError: if the function raises, or returns anything but a pair.
    """
    try:
        data = load_data()
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        raise WorkloadError(f"the function of workload.data {describe(error)}") from error
    if not isinstance(data, tuple | list) or len(data) != 2 or any(map(_is_array, data)):
        raise WorkloadError(
            "the function of workload.data must return (train, validation), such as "
            "(x, y), (x_val, y_val); validation may be None"
        )
    return data[0], data[1]


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _listed(name: str, compiled: Mapping[str, Any], key: str) -> list[Any]:
    metrics = compiled.get(key) or []
    if isinstance(metrics, Mapping):
        raise WorkloadError(
            f"{name} compiles with a dict of {key}, which tfopt does not take apart; give a list"
        )
    return list(metrics) if isinstance(metrics, list | tuple) else [metrics]


@contextmanager
def _recorded_compile(calls: list[tuple[Any, dict[str, Any]]]) -> Iterator[None]:
    """Append each model that is compiled meanwhile, with the arguments that were given."""
    import keras

    stock, own = keras.Model.compile, "compile" in vars(keras.Model)
    signature = inspect.signature(stock)

    def compile(model: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = dict(signature.bind(model, *args, **kwargs).arguments)
        del arguments["self"]
        calls.append((model, arguments))
        return stock(model, *args, **kwargs)

    keras.Model.compile = compile
    try:
        yield
    finally:
        if own:
            keras.Model.compile = stock
        else:
            del keras.Model.compile
