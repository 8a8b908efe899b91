"""The optimizers of a model."""

from __future__ import annotations

from typing import Any


def optimizers_of(model: Any) -> list[Any]:
    """Every optimizer that the model holds, that of `compile` first.

    A `train_step` of the user's may keep others beside it, alone or in lists and dicts.
    """
    import keras

    held = [model.optimizer]
    for value in vars(model).values():
        several = value.values() if isinstance(value, dict) else value
        held.extend(several if isinstance(value, dict | list | tuple) else [value])
    found = [part for part in held if isinstance(part, keras.optimizers.Optimizer)]
    return list({id(optimizer): optimizer for optimizer in found}.values())
