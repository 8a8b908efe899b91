"""A model that takes features in the place of its inputs, and trains its head on them."""

from __future__ import annotations

from typing import Any

from tfopt_core.toolkit import TRAINED_PART
from tfopt_data.frozen_prefix import Halves

# The key under which the features stand in the place of the model's inputs.
KEY = "tfopt_frozen_features"


def with_head(model: Any, cut: Halves, on_traced: Any) -> None:
    """Have the model take features, under `KEY`, as well as its own inputs. `without_head` undoes
    it. The model, its layers and its variables stay the same objects.

    :param on_traced: called when the head is traced on features.
    """
    own = type(model)

    class Headed(own):  # type: ignore[misc, valid-type]
        tfopt_own_class = own

        def __new__(cls, *args: Any, **named: Any) -> Any:
            """Return another model, such as a clone that a callback makes, of the own class."""
            return own(*args, **named)

        @property
        def input_spec(self) -> None:
            return None

        @input_spec.setter
        def input_spec(self, value: Any) -> None:
            """Keep none: there are two kinds of inputs."""

        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            if isinstance(inputs, dict) and KEY in inputs:
                on_traced()
                return cut.head(list(inputs[KEY]), training=training)
            return super().call(inputs, training=training, mask=mask)

    # a checkpoint of the training names the class by these
    Headed.__name__, Headed.__qualname__ = own.__name__, own.__qualname__
    Headed.__module__ = own.__module__
    setattr(Headed, TRAINED_PART, cut.head)
    model.__class__ = Headed


def without_head(model: Any) -> None:
    """Undo `with_head`, if it was done."""
    own = vars(type(model)).get("tfopt_own_class")
    if own is not None:
        model.__class__ = own
