"""Average the values that each replica updates on its own, such as batch normalization's.

In Keras 3 every replica updates its own moving averages from its part of the batch. The model is
validated and saved with their mean, so all replicas get the mean at the end of an epoch.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

_AVERAGING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def own_values(model: Any) -> list[Any]:
    """Return the float variables that a step updates without an optimizer, except metrics."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in metrics and str(variable.dtype).startswith(("float", "bfloat"))
    ]


def average_own_values(strategy: Any, model: Any) -> None:
    """Set these variables to their mean over all replicas. All processes must call it at once."""
    import tensorflow as tf

    variables = own_values(model)
    if not variables or strategy.num_replicas_in_sync == 1:
        return

    def of_replica() -> None:
        replica = tf.distribute.get_replica_context()
        # identity: a variable that is only read has no device in a graph, and cannot be sent
        own = [tf.identity(tf.cast(variable.value, tf.float32)) for variable in variables]
        sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, own)
        for variable, total in zip(variables, sums, strict=True):
            variable.assign(tf.cast(total / replica.num_replicas_in_sync, variable.dtype))

    if model not in _AVERAGING:
        _AVERAGING[model] = tf.function(lambda: strategy.run(of_replica), autograph=False)
    _AVERAGING[model]()
