"""`Loop` and `Offer`: training loops with the same results, and which of them may be tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from tfopt_core.records.in_run import Adapted


@attrs.frozen
class Loop:
    """One training loop: how many steps a call makes, and whether and how XLA compiles them.

    `kind` is "keras" (stock: XLA compiles single steps), "chunked" (XLA compiles the call whole)
    or "resident" (likewise, over data that the device holds).
    """

    steps: int
    jit_compile: bool
    kind: str = "keras"

    @property
    def compiles_tail(self) -> bool:
        """Whether the first smaller batch, the epoch's last, is compiled anew in its call."""
        return self.jit_compile and self.kind == "keras"

    @property
    def name(self) -> str:
        """`16 steps a call, XLA`, or `64 steps a call, compiled whole by XLA`."""
        words = ["1 step a call" if self.steps == 1 else f"{self.steps} steps a call"]
        if self.kind == "resident":
            words.append("over resident data")
        elif self.kind == "chunked" and not self.jit_compile:
            words.append("chunked")
        if self.jit_compile:
            words.append("XLA" if self.kind == "keras" else "compiled whole by XLA")
        return ", ".join(words)


@attrs.frozen(kw_only=True)
class Offer:
    """The loops that may be compared in a training.

    :param reference: the loop that the stack asks for.
    :param steps: other numbers of steps a call, rising, of which one is compared; each is a
        multiple of the reference's.
    :param other_jit_compile: whether the opposite setting of XLA may be compared.
    :param total_steps: the steps of the whole training, None if unknown.
    :param left_out: for each loop that is not compared, why, in words.
    """

    reference: Loop
    steps: tuple[int, ...] = ()
    other_jit_compile: bool = False
    total_steps: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many loops may be compared with the reference, at most."""
        return bool(self.steps) + self.other_jit_compile

    @property
    def empty(self) -> bool:
        """Whether there is nothing to compare."""
        return self.count == 0


class Decider(Protocol):
    """Chooses a loop for each call, is told what the call did, and keeps one loop in the end."""

    @property
    def kept(self) -> Loop | None:
        """The loop for the rest of the training, None while loops are compared."""

    def choose(self) -> Loop:
        """Return the loop for the next call. Called just before it."""

    def called(self, loop: Loop, steps: int, *, traced: bool) -> None:
        """Note that a call has returned: which loop made it, how many steps, whether it traced."""

    def failed(self, loop: Loop, reason: str) -> None:
        """Note that a loop could not be made or used. It must not be chosen again."""

    def cut(self) -> None:
        """Note that an epoch begins: the block under way is dropped."""

    def adapted(self) -> Adapted:
        """Return what was compared so far, which loop is kept and why."""


# Makes the decider of one training; the second argument waits for the device, None on a CPU.
Adapt = Callable[[Offer, Callable[[], None] | None], Decider]
