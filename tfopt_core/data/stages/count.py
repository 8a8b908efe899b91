"""How much comes out of a stage."""

from __future__ import annotations

import attrs


@attrs.frozen
class Count:
    """What stages yield: `elements` of them; `examples` before they were put into batches, None
    where that is unknown; and, where batches hold known examples, how many, as `inside`.

    Once the data are `shared` out, `examples` and `batch_size` are those of all workers together,
    and the others those of this worker.
    """

    elements: int | None = None
    examples: int | None = None
    inside: int | None = None
    batched: bool = False
    batch_size: int | None = None
    shared: bool = False

    def with_elements(self, elements: int | None) -> Count:
        """Return the count with another number of elements, None where that is unknown.

        What they are batches of is not followed further.
        """
        if self.batched:
            return attrs.evolve(self, elements=elements, inside=None)
        # of a part it is not known what becomes of the others'
        return attrs.evolve(self, elements=elements, examples=None if self.shared else elements)
