"""A drawn case as the text of its script, and why plain Keras may differ from itself."""

import re
from collections.abc import Mapping
from typing import Any

import attrs

# The plugins of a stack in recipe order, as a recipe's tables.
Stack = tuple[Mapping[str, Any], ...]
# What a map draws from goes on where the last reading left it.
_DRAWS_ON = re.compile(r"noise\(x|generator\.|drawer\.|with_noise|scale\.assign_add")
# What ends a pass over the data before its end.
_CUTS = re.compile(r"(steps_per_epoch|validation_steps|steps)=\d|stop_training|EarlyStopping|NaN|"
                   r"fail|interrupt|take\(|iter\(|assert_less")  # fmt: skip


@attrs.frozen
class Case:
    """A script and plugins that both sides have.

    :param lines: of the script: its data, its model, and its fits.
    :param base: plugins that change the training, under which both sides train.
    """

    lines: tuple[str, ...]
    base: Stack = ()

    @property
    def why_unsteady(self) -> str:
        """Why plain Keras may differ from itself, by what is ahead; "" if it does not."""
        text = str(self.lines)
        if "mirror(" in text and "LossScaleOptimizer" in text:
            return "replicas change one loss scale while others read it"
        if self._reads_again and "endless=True" in text:
            return "several readings share a generator"
        if "endless=True, fresh=True" in text:
            return "a generator that never ends draws as far as it is read ahead"
        cut = _CUTS.search(text)
        if "mixed=True" in text and cut:
            return "a pass that ends within an epoch exchanges examples while they are read ahead"
        if self._reads_again and cut and _DRAWS_ON.search(text):
            return "a pass that ends within an epoch leaves a generator where it was read ahead to"
        return ""

    @property
    def _reads_again(self) -> bool:
        return len(re.findall(r"fit\(\"|evaluate_on\(|in train|iter\(train", str(self.lines))) > 1


def script_of(case: Case, stack: Stack | None) -> str:
    """Return the script of a case under a stack; None is plain Keras.

    Run by hand (`PYTHONPATH=tests .venv/bin/python FILE [plain]`) it prints what it notes.
    """
    shown = None if stack is None else list(stack)
    lines = "\n".join(f"    {line}" for line in (*case.lines, "finish(model)"))
    return f"from support.drawn_fits.names import *\n\nwith under({shown!r}):\n{lines}\n"
