"""Read the hyperparameters of Keras Tuner as ranges of a search. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.records.hyperparameters import Conditions, Hyperparameter

BATCH_SIZE = "batch_size"


def declared(
    name: str, space: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Hyperparameter, ...]:
    """Return the hyperparameters of a space, in its order, each name once.

    :param name: of the model, in messages.
    :param space: Keras Tuner's objects.
    :param options: the values that the recipe gives.
    :raises WorkloadError: for one of an unknown kind, and a name with two ranges or defaults.
    """
    found: dict[str, Hyperparameter] = {}
    for one in space:
        if one.name == BATCH_SIZE:
            raise WorkloadError(
                f'{name}: the hyperparameter "{BATCH_SIZE}" is the recipe\'s own; remove it, and '
                "write its range into [tune.options]"
            )
        range_, when = _range(name, one), _conditions(name, one)
        untuned = options.get(one.name, one.default)
        before = found.get(one.name)
        if before is not None and (before.range, before.untuned) != (range_, untuned):
            raise WorkloadError(
                f'{name}: the hyperparameter "{one.name}" is declared with two ranges or '
                "defaults; give each a name of its own"
            )
        places = (when,) if before is None else (*before.when, when)
        found[one.name] = Hyperparameter(
            name=one.name, range=range_, untuned=untuned,
            # once it is always active, it is so beside any condition
            when=() if () in places or (before is not None and not before.when) else places,
        )  # fmt: skip
    return tuple(found.values())


def unfit(declarations: Sequence[Any], value: Any) -> str:
    """Return why a value fits to none of the declarations of a hyperparameter; empty if it does."""
    reasons = [_unfit(one, value) for one in declarations]
    return "" if "" in reasons else reasons[0]


def _unfit(one: Any, value: Any) -> str:
    is_flag = isinstance(value, bool)
    match type(one).__name__:
        case "Int" if is_flag or not isinstance(value, int):
            return f"takes a whole number, got {value!r}"
        case "Float" if is_flag or not isinstance(value, int | float):
            return f"takes a number, got {value!r}"
        case "Boolean" if not is_flag:
            return f"takes true or false, got {value!r}"
        case "Choice" if not _among(value, one.values):
            return f"takes one of {', '.join(map(repr, one.values))}, got {value!r}"
        case "Fixed" if not _among(value, [one.value]):
            return f"is fixed to {one.value!r}, got {value!r}"
    return ""


def _among(value: Any, values: Sequence[Any]) -> bool:
    return any(one == value and isinstance(one, bool) is isinstance(value, bool) for one in values)


def _conditions(name: str, one: Any) -> Conditions:
    for condition in one.conditions:
        if type(condition).__name__ != "Parent":
            kind = type(condition).__name__
            raise WorkloadError(
                f'{name}: the hyperparameter "{one.name}" has a condition of an unknown kind '
                f'("{kind}"); tfopt knows parents and their values'
            )
    return tuple((condition.name, tuple(condition.values)) for condition in one.conditions)


def _range(name: str, one: Any) -> Any:
    """Return the range as `[tune.options]` writes it; None where there is one value."""
    match type(one).__name__:
        case "Fixed":
            return None
        case "Boolean":
            return [False, True]
        case "Choice":
            return _choices(one.values)
        case "Int" | "Float":
            return _numbers(name, one)
    kind = type(one).__name__
    raise WorkloadError(
        f'{name}: the hyperparameter "{one.name}" is of an unknown kind ("{kind}"); tfopt knows '
        "Int, Float, Choice, Boolean and Fixed"
    )


def _choices(values: Sequence[Any]) -> Any:
    distinct = list(dict.fromkeys(values))
    return distinct if len(distinct) > 1 else None


def _numbers(name: str, one: Any) -> Any:
    low, high, step = one.min_value, one.max_value, one.step
    if one.sampling not in ("linear", "log"):
        raise WorkloadError(
            f'{name}: the hyperparameter "{one.name}" has sampling="{one.sampling}", which Optuna '
            'has not; write "linear" or "log"'
        )
    if low == high:
        return None
    if one.sampling == "log":
        if step is None:
            return {"low": low, "high": high, "log": True}
        # a step of a log scale is a factor
        count = int(math.log(high / low, step) + 1e-9)
        return _choices([low * step**power for power in range(count + 1)])
    if step is None or (step == 1 and isinstance(low, int)):
        return {"low": low, "high": high}
    count = int((high - low) / step + 1e-9)
    last = low + count * step
    whole = isinstance(last, int)
    return {"low": low, "high": last if whole else round(last, 12), "step": step} if count else None
