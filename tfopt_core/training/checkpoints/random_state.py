"""Capture and restore the random generators that are not variables of a training."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfopt_core.private_api import why_without

# Ops whose next value depends on how often they ran: TensorFlow's runtime holds their state, and
# nothing can read it.
_UNREADABLE = (
    "Multinomial", "ParameterizedTruncatedNormal", "RandomCrop", "RandomGamma", "RandomPoissonV2",
    "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
    "SampleDistortedBoundingBoxV2", "TruncatedNormal",
)  # fmt: skip


def capture_random() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and Keras' global generators, as JSON values."""
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    generator = _keras_generator()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), place, has_gauss, cached],
        "keras": None if generator is None else np.asarray(generator.state).tolist(),
    }


def restore_random(state: Mapping[str, Any]) -> None:
    """Restore the generators, Keras' own only if it was in use."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, place, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), place, has_gauss, cached))
    if state["keras"] is not None and not why_without("keras-random-state"):
        from keras.src.random.seed_generator import global_seed_generator

        global_seed_generator().state.assign(np.array(state["keras"]))


def unreadable_ops(graph: Any) -> tuple[str, ...]:
    """Return the ops of a graph, and of all functions it calls, whose state cannot be saved."""
    from tfopt_core.data.graphs import all_ops

    return tuple(sorted(_named(all_ops(graph))))


def _named(ops: Iterable[str]) -> set[str]:
    return {op for op in ops if op in _UNREADABLE or op.startswith("Stateful")} - {
        "StatefulPartitionedCall", "StatefulIf", "StatefulWhile",
    }  # fmt: skip


def _keras_generator() -> Any:
    """Return Keras' global seed generator; None if it is unused so far, or not accessible."""
    if why_without("keras-random-state"):
        return None
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("global_seed_generator")
