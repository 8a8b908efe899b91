"""The error that each layer's rounding causes in the gradients, and which layers stand out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any

from tfopt_core.toolkit import np

# The gradient of a batch of 16 differs from the mean one by more than this share of its length.
LEAST_ERROR = 0.2
# How many times the median of the other layers is out of line.
OUT_OF_LINE = 5.0
# A layer's gradient below this share of the root mean square of all is rounding alone.
NEGLIGIBLE = 1e-3


def relative_error(exact: Mapping[str, Any], rounded: Mapping[str, Any]) -> float:
    """Return the largest error of a layer's gradient, as a share of that gradient's length.

    A layer's variables count together: the gradient of a bias before a batch normalization is
    rounding alone, in any precision.

    :param exact, rounded: by the path of a variable ("conv/kernel"), an array; infinity is
        returned if a rounded one is not finite.
    """
    if not all(np.isfinite(array).all() for array in rounded.values()):
        return math.inf
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for path, array in exact.items():
        wide = np.asarray(array, np.float64)
        parts = sums[path.rpartition("/")[0]]
        parts[0] += float(np.sum(wide**2))
        parts[1] += float(np.sum((np.asarray(rounded[path], np.float64) - wide) ** 2))
        parts[2] += wide.size
    elements = sum(size for _, _, size in sums.values())
    whole = sum(squares for squares, _, _ in sums.values())
    if not whole:
        return 0.0
    return max(
        math.sqrt(off / max(squares, NEGLIGIBLE**2 * whole * size / elements))
        for squares, off, size in sums.values()
        if size
    )


def out_of_line(errors: Mapping[str, float], dtype: str) -> dict[str, str]:
    """Return the layers whose error is out of line, by name the figures that say so.

    :param errors: the relative error of the gradients with that layer alone in 16 bits, by name.
    """
    kept = {}
    for name, error in errors.items():
        others = [e for other, e in errors.items() if other != name and math.isfinite(e)]
        middle = median(others) if others else 0.0
        if not math.isfinite(error):
            kept[name] = f"its gradients overflow in {dtype}"
        elif error > max(LEAST_ERROR, OUT_OF_LINE * middle):
            said = f"in {dtype} it puts the gradients off by {error:.1%}"
            beside = f", the median of the other layers is {middle:.1%}" if others else ""
            kept[name] = said + beside
    return kept
