"""`Loop`: which training loop trains, with how many steps a call, and whether XLA compiles them."""

from __future__ import annotations

import attrs


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
