"""Apply a `PrecisionPolicy` to Keras."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks import PrecisionPolicy
from tfopt_core.private_api import why_without
from tfopt_core.training.layers import nested_layers


def set_policy(policy: PrecisionPolicy) -> None:
    """Set the dtype policy of the layers that are built from now on."""
    import keras

    keras.config.set_dtype_policy(policy.policy)


def keep_in_float32(model: Any, policy: PrecisionPolicy) -> tuple[str, ...]:
    """Keep the output layers, and the layers that the policy names, in float32.

    Loss and softmax lose digits in half precision. A model whose output layers are unknown (it
    builds itself when called) keeps its policy; Keras' losses convert to float32 anyway.

    :returns: the names of the layers that compute in float32 because of this.
    """
    import keras

    if policy.policy in ("float32", "float64"):
        return ()
    chosen: list[Any] = []
    # checked here, since export copies the source of `output_layers`
    if policy.float32_outputs and (
        isinstance(model, keras.Sequential) or not why_without("output-layers")
    ):
        chosen += output_layers(model)
    for layer in nested_layers(model) if policy.float32_layers else ():
        if any(fnmatch(layer.name, pattern) for pattern in policy.float32_layers):
            chosen.append(layer)
    for layer in chosen:
        layer.dtype_policy = "float32"
    return tuple(dict.fromkeys(layer.name for layer in chosen))


def output_layers(model: Any) -> tuple[Any, ...]:
    """Return the layers that produce the model's outputs, as far as the model knows them."""
    import keras

    if isinstance(model, keras.Sequential):
        return tuple(model.layers[-1:])
    try:
        outputs = keras.tree.flatten(model.outputs)
    except (AttributeError, ValueError):
        return ()
    operations = [output._keras_history.operation for output in outputs]
    return tuple(op for op in dict.fromkeys(operations) if isinstance(op, keras.Layer))


def check_loss_scaling(model: Any, policy: PrecisionPolicy) -> None:
    """Refuse float16 for a model whose own `train_step` does not scale the loss.

    The optimizer divides the gradients by the loss scale. A step that does not multiply the loss
    by it trains at 1/32768 of the learning rate, without an error.

    :raises WorkloadError: naming the model's class.
    """
    import keras

    step = type(model).train_step
    if policy.policy != "mixed_float16" or step is keras.Model.train_step:
        return
    if step.__module__.startswith("keras."):
        return
    if "scale_loss" not in step.__code__.co_names:
        raise WorkloadError(
            f'the train_step of "{type(model).__name__}" never calls optimizer.scale_loss, so '
            "float16 would train it at a vanishing rate; scale the loss there, or take "
            "mixed_bfloat16"
        )
