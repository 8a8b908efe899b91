"""Split a model's call: parts of a batch are computed by functions that run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from tfopt_core.toolkit import describe, keras, method_replaced, nested_layers, np, tf, why_without

# Rows of the example on which a model is tried, for each part.
ROWS_A_PART = 2
# What another number of rows may change: kernels may sum in another order.
ROUNDING = 1e-3


@attrs.define(eq=False)
class SplitCalls:
    """What became of a model's calls while its step was traced.

    :param parts: the parts of a batch.
    :param jit_compile: whether XLA compiles each part.
    :param traced: how many calls were traced in parts.
    :param reason: why the last call was left whole, "" if it was not.
    """

    parts: int
    jit_compile: bool
    traced: int = 0
    reason: str = ""
    _reasons: dict[str, str] = attrs.field(factory=dict)

    @property
    def why_whole(self) -> str:
        """Why the traced step computes whole batches, "" if it does not."""
        if self.reason or self.traced:
            return self.reason
        return "no train step that was traced calls the model itself"

    @contextmanager
    def within(self, model: Any) -> Iterator[None]:
        """Split the calls of the model in this block, which traces a training step."""
        own = model.call

        def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
            # a later fit may trace the step anew, with other inputs
            form = repr(tf.nest.map_structure(tf.type_spec_from_value, inputs))
            if form not in self._reasons:
                self._reasons[form] = why_not_split(model, own, inputs, args, kwargs, self.parts)
            self.reason = self._reasons[form]
            if self.reason:
                return own(inputs, *args, **kwargs)
            self.traced += 1
            return self._split(model, own, inputs, args, kwargs)

        with method_replaced(model, "call", call):
            yield

    def _split(self, model: Any, call: Any, inputs: Any, args: Any, kwargs: Any) -> Any:
        """Return what a model's call returns, computed in parts of the batch.

        Each part is a function of its own, which changes no variable: TensorFlow runs such
        functions at once, and their gradients too. What is drawn at random is drawn from a seed for
        each part.
        """
        seeds = seed_states(model)

        def part(piece: Any, states: Any) -> Any:
            with keras.StatelessScope(list(zip(seeds, states, strict=True))) as scope:
                outputs = call(piece, *args, **kwargs)
            return outputs, [scope.get_current_value(seed) for seed in seeds]

        compute = tf.function(
            part, autograph=False, jit_compile=self.jit_compile, reduce_retracing=True
        )
        begun = [tf.convert_to_tensor(seed.value) for seed in seeds]
        computed = [
            # the first number of a state is the seed itself, the second counts what was drawn
            compute(piece, [state + tf.constant([number, 0], state.dtype) for state in begun])
            for number, piece in enumerate(pieces_of(inputs, self.parts))
        ]
        for seed, after in zip(seeds, computed[0][1], strict=True):
            seed.assign(after)
        outputs = (made for made, _ in computed)
        return tf.nest.map_structure(lambda *one: tf.concat(one, 0), *outputs)


def build_before_trace(model: Any, inputs: Any) -> None:
    """Build a model that has no weights yet. Those that a trace makes hold nothing in it.

    :param inputs: those that are being traced.
    """
    if why_without("nested-layers") or all(layer.built for layer in [model, *nested_layers(model)]):
        return
    if not all(isinstance(part, tf.Tensor) for part in tf.nest.flatten(inputs)):
        return
    with tf.init_scope():
        model(_some(specs_of(inputs), ROWS_A_PART))


def specs_of(inputs: Any) -> Any:
    """Return what these inputs are, for any number of examples."""
    return tf.nest.map_structure(
        lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), inputs
    )


def pieces_of(inputs: Any, parts: int) -> list[Any]:
    """Return the parts of a batch; where it does not divide evenly the last one is larger."""
    flat = tf.nest.flatten(inputs)
    known = next((part.shape[0] for part in flat if part.shape[0] is not None), None)
    count = tf.shape(flat[0])[0] if known is None else known
    size = count // parts
    sizes = [size] * (parts - 1) + [count - size * (parts - 1)]
    columns = [tf.split(part, sizes, num=parts) for part in flat]
    return [tf.nest.pack_sequence_as(inputs, rows) for rows in zip(*columns, strict=True)]


def seed_states(model: Any) -> list[Any]:
    """Return the states from which a model's layers draw at random."""
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.name == "seed_generator_state" and tuple(variable.shape) == (2,)
    ]


def why_not_split(
    model: Any, call: Callable[..., Any], inputs: Any, args: Any, kwargs: Any, parts: int
) -> str:
    """Return why the model cannot be computed in parts of this batch, "" if it can.

    :param inputs: those of a call that is being traced.
    """
    missing = why_without("output-masks") or why_without("nested-layers")
    if missing:
        return missing
    flat = tf.nest.flatten(inputs)
    if not all(isinstance(part, tf.Tensor) and part.shape.rank for part in flat):
        return "its inputs are not all dense tensors with an axis of examples"
    if any(tf.is_tensor(value) for value in tf.nest.flatten((args, kwargs))):
        return "it is called with a tensor beside its inputs, such as a mask"
    known = {part.shape[0] for part in flat}
    if len(known) > 1:
        return f"its inputs have unlike numbers of examples ({sorted(map(str, known))})"
    if flat[0].shape[0] is not None and flat[0].shape[0] < parts:
        return f"a batch has {flat[0].shape[0]} examples, fewer than parts"
    for layer in nested_layers(model):
        if getattr(layer, "stateful", False):
            return f'the layer "{layer.name}" carries states from batch to batch'
    with tf.init_scope():
        try:
            return _tried(model, call, specs_of(inputs), args, kwargs, parts)
        except Exception as error:
            return f"a part of a batch {describe(error)}"


def _tried(model: Any, call: Any, specs: Any, args: Any, kwargs: Any, parts: int) -> str:
    """Return what a trace in training mode and a small batch show against parts, "" if nothing."""
    from keras.src.backend.common.masking import get_keras_mask

    seeds = seed_states(model)
    states = model.non_trainable_variables
    found: list[str] = []

    def stateless(inputs: Any) -> Any:
        given = list(zip(states, [tf.convert_to_tensor(v.value) for v in states], strict=True))
        with keras.StatelessScope(given, collect_losses=True) as scope:
            outputs = call(inputs, *args, **kwargs)
        for variable, before in given:
            after = scope.get_current_value(variable)
            if after is not before and not any(variable is seed for seed in seeds):
                found.append(f'"{variable.path}" changes in each step, from the whole batch')
        if scope.losses:
            found.append("a layer adds a loss of its own when it is called")
        if any(get_keras_mask(output) is not None for output in tf.nest.flatten(outputs)):
            found.append("its output has a mask")
        return outputs

    traced = tf.function(stateless, autograph=False)
    traced.get_concrete_function(specs)
    if found:
        return found[0]
    outputs = traced.get_concrete_function(specs).structured_outputs
    if not all(part.shape.rank for part in tf.nest.flatten(outputs)):
        return "an output has no axis of examples"
    compute = traced
    if seeds:  # what is drawn hides what examples do to each other, so nothing is drawn
        quiet = {**kwargs, "training": False} if "training" in kwargs else kwargs
        compute = tf.function(lambda inputs: call(inputs, *args, **quiet), autograph=False)
    batch = _some(specs, ROWS_A_PART * parts)
    whole = compute(batch)
    pieces = [compute(piece) for piece in pieces_of(batch, parts)]
    joined = tf.nest.map_structure(lambda *one: tf.concat(one, 0), *pieces)
    for ours, theirs in zip(tf.nest.flatten(whole), tf.nest.flatten(joined), strict=True):
        if ours.shape != theirs.shape or not _close(ours, theirs):
            return "what it makes of an example depends on the others of the batch"
    return ""


def _some(specs: Any, rows: int) -> Any:
    """Return a batch that fits the specs: unlike rows of small numbers."""
    draw = np.random.default_rng(0)

    def values(spec: Any) -> Any:
        shape = [rows, *(size or ROWS_A_PART for size in spec.shape[1:])]
        if spec.dtype.is_floating:
            return tf.constant(draw.normal(size=shape), spec.dtype)
        # zero and one, which a table of any size has
        return tf.cast(draw.integers(0, 2, shape), spec.dtype)

    return tf.nest.map_structure(values, specs)


def _close(ours: Any, theirs: Any) -> bool:
    if not ours.dtype.is_floating:
        return bool(np.array_equal(ours, theirs))
    first, second = (np.asarray(tf.cast(one, tf.float32)) for one in (ours, theirs))
    scale = float(np.abs(first).max(initial=0.0))
    return bool(np.allclose(first, second, rtol=ROUNDING, atol=ROUNDING * scale, equal_nan=True))
