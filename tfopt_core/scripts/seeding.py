"""Replace the seeds that a script sets, which would be the same in each pair of runs."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.scripts.keras_patches import replace

# Libraries in which the functions are replaced wherever they are exported, and nowhere else.
EXPORTING = ("keras", "tensorflow")
MODULUS = 2**31 - 1


@attrs.define(eq=False)
class Seeding:
    """Replaces each global seed that a script sets by one that also depends on the run's seed.

    Data made from it then differ from pair to pair, and are the same on both sides of a pair. Seeds
    of a layer, a shuffle or a generator stay as they are.

    :param seen: the calls of the script, as text: `keras.utils.set_random_seed(42)`.
    """

    seen: list[str] = attrs.field(factory=list)
    _seed: int = 0
    _inside: bool = False

    def begin(self, seed: int, put_back: contextlib.ExitStack) -> None:
        """Set all seeds, and replace the functions that set them until `put_back` is closed."""
        import keras
        import numpy as np
        import tensorflow as tf

        self._seed = seed
        keras.utils.set_random_seed(seed)
        self._everywhere("keras.utils.set_random_seed", keras.utils.set_random_seed, put_back)
        self._everywhere("tf.random.set_seed", tf.random.set_seed, put_back)
        for module, name in ((np.random, "np.random.seed"), (random, "random.seed")):
            replace(put_back, module, "seed", self._replacement(name, module.seed))

    def in_words(self) -> str:
        """Return a sentence for the report on the seeds that the script set."""
        calls = ", ".join(dict.fromkeys(self.seen))
        return (
            f"the script seeds itself ({calls}); each pair of runs had a seed of its own instead, "
            "the same on both sides"
        )

    def mixed(self, given: int) -> int:
        """Return the seed to set in place of `given`."""
        return (given * 1_000_003 + self._seed) % MODULUS

    def _everywhere(
        self, name: str, function: Callable[..., Any], put_back: contextlib.ExitStack
    ) -> None:
        """Replace the function wherever the libraries export it."""
        replacement = self._replacement(name, function)
        for module in list(sys.modules.values()):
            top = getattr(module, "__name__", "").partition(".")[0]
            if top not in EXPORTING:
                continue
            for key, value in list(vars(module).items()):
                if value is function:
                    replace(put_back, module, key, replacement)

    def _replacement(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def seed(*given: Any, **named: Any) -> Any:
            values = [*given, *named.values()]
            # (these functions call each other: only the outermost call is the script's)
            if self._inside or len(values) != 1 or type(values[0]) is not int:
                return function(*given, **named)
            self.seen.append(f"{name}({values[0]})")
            self._inside = True
            try:
                return function(self.mixed(values[0]))
            finally:
                self._inside = False

        return seed
