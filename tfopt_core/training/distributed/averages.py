"""Values that each replica has of its own: the moving averages of batch normalization, say.

Keras 3 has every replica update its own from its part of the batch. Their mean is what the model
is validated with and saved with, so at an epoch's end all replicas get it.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

_AVERAGING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def own_values(model: Any) -> list[Any]:
    """The variables that a step changes and no optimizer does, but for those of metrics."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in metrics and str(variable.dtype).startswith(("float", "bfloat"))
    ]


def average_own_values(strategy: Any, model: Any) -> None:
    """Give every replica the mean of all replicas' values. All processes must call it at once."""
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
