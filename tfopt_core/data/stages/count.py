"""The number of elements and examples after a stage."""

from __future__ import annotations

import attrs


@attrs.frozen
class Count:
    """The number of `elements` after a stage, of `examples` before batching, and of the examples
    `inside` batches; None if unknown.

    Once the data are `shared` among workers, `examples` and `batch_size` are those of all workers
    together, and the others those of this worker.
    """

    elements: int | None = None
    examples: int | None = None
    inside: int | None = None
    batched: bool = False
    batch_size: int | None = None
    shared: bool = False

    def with_elements(self, elements: int | None) -> Count:
        """Return the count with another number of elements, None if unknown.

        The number of examples inside batches is then unknown.
        """
        if self.batched:
            return attrs.evolve(self, elements=elements, inside=None)
        # the elements of the other workers are unknown
        return attrs.evolve(self, elements=elements, examples=None if self.shared else elements)
