"""Gradients of a plugin's own, which are derived no further."""

from __future__ import annotations

import functools
from typing import Any, NoReturn


def once(gradient: Any, plugin: str, *inputs: Any) -> Any:
    """Return the gradient as a function that refuses to be derived itself.

    It uses what the forward pass computed, so that a second derivative would be wrong silently.

    :param gradient: given the gradient of each output, returns those of the inputs.
    :param plugin: whose gradient it is, for the message.
    :param inputs: those that it is the gradient of.
    """
    import tensorflow as tf

    def refuse(*_: Any) -> NoReturn:
        raise NotImplementedError(
            f"{plugin} has no second derivative, which this training takes; leave the plugin out "
            "of the recipe"
        )

    @functools.wraps(gradient)
    def derived(*upstream: Any) -> Any:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def first(*given: Any) -> Any:
            return gradient(*given[: len(upstream)]), refuse

        return first(*upstream, *inputs)

    return derived
