"""Data sets as plain Python values, so that two can be compared."""

from typing import Any

import numpy as np

from support.lazy_modules import keras, tf
from tfopt_core import DataPlan
from tfopt_core.data.lower import lower


def plain(element: Any) -> Any:
    """An element as nested lists; data sets in it as what they yield."""
    if isinstance(element, dict):
        return {key: plain(item) for key, item in element.items()}
    if isinstance(element, tuple):
        return tuple(map(plain, element))
    if isinstance(element, tf.data.Dataset):
        return [plain(item) for item in element]
    if isinstance(element, tf.RaggedTensor):
        return ["ragged", element.to_list()]
    if isinstance(element, tf.SparseTensor):
        parts = (element.indices, element.values, element.dense_shape)
        return ["sparse", *(part.numpy().tolist() for part in parts)]
    return np.asarray(element.numpy()).tolist()


def epochs(dataset: Any, count: int = 2) -> list[Any]:
    """Everything that a data set yields in so many epochs."""
    return [[plain(element) for element in dataset] for _ in range(count)]


def elements(plan: DataPlan) -> list[Any]:
    """Everything that a plan yields in one epoch."""
    return [plain(element) for element in lower(plan)]


def seeded_epochs(plan: DataPlan, count: int = 3) -> list[Any]:
    """Everything that a plan yields in so many epochs after the same global seed."""
    keras.utils.set_random_seed(5)
    return epochs(lower(plan), count)
