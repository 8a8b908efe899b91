"""The optimizers of a model, that of `compile` and others."""

from __future__ import annotations

from typing import Any


def optimizers_of(model: Any) -> list[Any]:
    """Return every optimizer that the model holds, that of `compile` first.

    The user's own `train_step` may keep others as attributes, single or in lists and dicts.
    """
    import keras

    held = [model.optimizer]
    for value in vars(model).values():
        several = value.values() if isinstance(value, dict) else value
        held.extend(several if isinstance(value, dict | list | tuple) else [value])
    optimizers = [part for part in held if isinstance(part, keras.optimizers.Optimizer)]
    return list({id(optimizer): optimizer for optimizer in optimizers}.values())
