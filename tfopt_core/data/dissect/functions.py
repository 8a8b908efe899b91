"""The function of a stage in a given data set, as its traced graph."""

from __future__ import annotations

import functools
import re
from typing import Any, ClassVar

from tfopt_core.data.dissect.walk import NotUnderstood
from tfopt_core.data.functions import function_name, place_of


class TracedFunction:
    """Calls the traced graph of a function that was given to `map`, `filter`, `interleave`...

    It takes and returns the same elements, and works in a new stage. The Python code is not run
    again, so its side effects while tracing do not happen twice; variables and tables are the same
    ones. `place` is where the function was written, "" if that is unknown.

    :raises NotUnderstood: for functions of TensorFlow 1.
    """

    # marks a function that autograph leaves alone
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(self, structured: Any) -> None:
        self.concrete = structured.function
        self.input_spec = structured._input_structure
        self.output_spec = structured.output_structure
        if not hasattr(self.concrete, "graph"):
            raise NotUnderstood("a function of TensorFlow 1")
        original = getattr(structured, "_func", None)
        self.__qualname__ = self.__name__ = _name(original, self.concrete)
        self.place = place_of(original)

    def __call__(self, *arguments: Any) -> Any:
        from tensorflow.python.data.util import structure

        # tf.data calls a function with the parts of a tuple as its arguments
        element = arguments if type(self.input_spec) is tuple else arguments[0]
        results = self.concrete(*structure.to_tensor_list(self.input_spec, element))
        return structure.from_compatible_tensor_list(self.output_spec, list(results))

    def __repr__(self) -> str:
        return f"<the traced function {self.__name__}>"


def _name(original: Any, concrete: Any) -> str:
    if original is not None:
        while isinstance(original, functools.partial):
            original = original.func
        return function_name(original)
    traced = concrete.name.decode() if isinstance(concrete.name, bytes) else str(concrete.name)
    return re.sub(r"^__inference_(Dataset_[a-z]+_)?|_\d+$", "", traced) or "function"
