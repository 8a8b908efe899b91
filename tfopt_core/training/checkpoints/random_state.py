"""The states of the random generators that a training draws from outside of its own variables."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfopt_core.private_api import why_without

# Ops whose next value depends on how often they were asked: their state lies in TensorFlow's
# runtime, and nothing can read it.
_UNREADABLE = (
    "Multinomial", "ParameterizedTruncatedNormal", "RandomCrop", "RandomGamma", "RandomPoissonV2",
    "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
    "SampleDistortedBoundingBoxV2", "TruncatedNormal",
)  # fmt: skip


def capture_random() -> dict[str, Any]:
    """Python's, NumPy's and Keras' global generators, as JSON can hold them."""
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    generator = _keras_generator()
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), place, has_gauss, cached],
        "keras": None if generator is None else np.asarray(generator.state).tolist(),
    }


def restore_random(state: Mapping[str, Any]) -> None:
    """Put the generators back to where they were, those that the state names."""
    if "python" in state:
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers), gauss))
    if "numpy" in state:
        kind, keys, place, has_gauss, cached = state["numpy"]
        np.random.set_state((kind, np.array(keys, np.uint32), place, has_gauss, cached))
    if state.get("keras") is not None and not why_without("keras-random-state"):
        from keras.src.random.seed_generator import global_seed_generator

        global_seed_generator().state.assign(np.array(state["keras"]))


def unreadable_ops(graph: Any) -> tuple[str, ...]:
    """The ops of a graph, and of all functions it calls, whose random state cannot be kept."""
    from tfopt_core.data.graphs import all_ops

    return tuple(sorted(_named(all_ops(graph))))


def _named(ops: Iterable[str]) -> set[str]:
    return {op for op in ops if op in _UNREADABLE or op.startswith("Stateful")} - {
        "StatefulPartitionedCall", "StatefulIf", "StatefulWhile",
    }  # fmt: skip


def _keras_generator() -> Any:
    """Keras' global seed generator, None where nothing has asked for it yet, or none can be had."""
    if why_without("keras-random-state"):
        return None
    from keras.src.backend.common import global_state

    return global_state.get_global_attribute("global_seed_generator")
