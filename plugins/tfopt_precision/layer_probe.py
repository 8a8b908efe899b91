"""Compute the gradients of a batch with single layers in 16 bits, and choose who stays out."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from time import monotonic
from typing import Any

import attrs

from tfopt_core.toolkit import describe, keras, method_replaced, nested_layers, np, tf

# Examples of the batch that are used.
EXAMPLES = 16
PROBE_SECONDS = 60.0
# Loss scales that are tried one after another until no gradient overflows.
SCALES = (2.0**15, 2.0**10, 2.0**5, 1.0)
# What draws random numbers draws others in 16 bits: switched off, so that only rounding differs.
RATES = ("rate", "dropout", "recurrent_dropout", "stddev")


@attrs.frozen
class ProbedLayers:
    """What a probe found.

    :param kept: why a layer stays in float32, by name, in the order of the model.
    :param errors: by the name of a layer, the error of the gradients with it alone in 16 bits.
    :param together: the error with all of them in 16 bits but the kept ones, None if it fails.
    :param refused: why the model cannot train in 16 bits at all, "" if it can.
    :param left_out: how many layers there was no time for.
    """

    kept: dict[str, str]
    errors: dict[str, float]
    together: float | None = None
    refused: str = ""
    left_out: int = 0


def probe_layers(
    model: Any,
    train_step: Callable[[Any], Any],
    batch: Any,
    policy: str,
    *,
    seconds: float = PROBE_SECONDS,
    now: Callable[[], float] = monotonic,
) -> ProbedLayers:
    """Compare the gradients of a batch in float32 with those of each layer alone in 16 bits.

    :param model: compiled, its layers in the policy; its variables and policies are put back.
    :param train_step: called with a batch; the gradients are those that it gives its optimizer.
    :param policy: "mixed_bfloat16" or "mixed_float16".
    """
    dtype = policy.removeprefix("mixed_")
    probe = _Probe(model, train_step, _some_of(batch), policy)
    end = now() + seconds
    with probe.undone():
        exact = probe.gradients()
        errors: dict[str, float] = {}
        failed: dict[str, str] = {}
        left_out = 0
        for unit in probe.units:
            if now() > end:
                left_out += 1
                continue
            try:
                with probe.alone(unit):
                    errors[unit.name] = probe.error(exact)
            except _errors_of_types() as error:
                failed[unit.name] = f"in {dtype} it {describe(error)}"
        kept = {**failed, **out_of_line(errors, dtype)}
        refused, together = "", None
        while True:
            try:
                with probe.all_but(kept):
                    together = probe.error(exact)
                break
            except _errors_of_types() as error:
                layer = probe.innermost(error)
                if layer is None or layer.name in kept:
                    refused = f"in {dtype} the model's own code {describe(error)}"
                    break
                kept[layer.name] = f"in {dtype} it {describe(error)}"
    in_order = {unit.name: kept[unit.name] for unit in probe.units if unit.name in kept}
    return ProbedLayers(in_order, errors, together, refused, left_out)


@attrs.define(eq=False)
class _Probe:
    """A model whose layers change between float32 and 16 bits."""

    model: Any
    train_step: Callable[[Any], Any]
    batch: Any
    policy: str
    low: list[Any] = attrs.field(init=False)
    units: list[Any] = attrs.field(init=False)
    drawn: list[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        dtype = self.policy.removeprefix("mixed_")
        layers = [self.model, *nested_layers(self.model)]
        self.low = [layer for layer in layers if layer.compute_dtype == dtype]
        chosen = {id(layer) for layer in self.low}
        parts = list(_parts(self.model))
        self.units = [part for part in parts if id(part) in chosen and not _draws(part)]
        self.drawn = [part for part in parts if _draws(part)]

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Have all layers compute in float32 and draw nothing, and put all back at the end."""
        rates = [
            (layer, name, vars(layer)[name])
            for layer in nested_layers(self.model)
            for name in RATES
            if isinstance(vars(layer).get(name), float)
        ]
        for layer, name, _ in rates:
            setattr(layer, name, 0.0)
        try:
            with _in_policy("float32", self.low):
                yield
        finally:
            for layer, name, rate in rates:
                setattr(layer, name, rate)
            self.model.reset_metrics()

    @contextlib.contextmanager
    def alone(self, unit: Any) -> Iterator[None]:
        """Have one layer compute in 16 bits, and hand on its result in float32."""
        original = unit.call

        def call(*given: Any, **named: Any) -> Any:
            return _as_float32(original(*given, **named))

        # Keras looks at the signature for what to hand in
        call.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        parts = [unit, *nested_layers(unit)]
        chosen = [part for part in parts if any(part is layer for layer in self.low)]
        with _in_policy(self.policy, chosen), method_replaced(unit, "call", call):
            yield

    def all_but(self, kept: Any) -> contextlib.AbstractContextManager[None]:
        """Have all layers compute in 16 bits, but those that are kept or draw, and what is within
        them. A layer that draws within another one, as dropout in a block, computes as that does.
        """
        named = [layer for layer in nested_layers(self.model) if layer.name in kept]
        out = {
            id(part) for layer in (*named, *self.drawn) for part in (layer, *nested_layers(layer))
        }
        return _in_policy(self.policy, [layer for layer in self.low if id(layer) not in out])

    def error(self, exact: dict[str, Any]) -> float:
        """Return the error of the gradients as the layers compute now, with the largest loss scale
        that does not overflow."""
        error = 0.0
        for scale in SCALES if self.policy == "mixed_float16" else SCALES[:1]:
            error = relative_error(exact, self.gradients(scale))
            if error < float("inf"):
                break
        return error

    def gradients(self, scale: float = SCALES[0]) -> dict[str, Any]:
        """Return the gradients of one step by the paths of their variables, unscaled."""
        model, optimizer = self.model, self.model.optimizer
        caught: dict[str, Any] = {}

        def catch(grads: Any, trainable_variables: Any = None) -> None:
            variables = trainable_variables or model.trainable_variables
            caught.update({v.path: g for v, g in zip(variables, grads, strict=True)})

        before = [variable.numpy() for variable in model.variables]
        keras.utils.set_random_seed(1)
        own_scale = getattr(optimizer, "initial_scale", None)
        if own_scale is not None and optimizer.built:
            scale = float(optimizer.dynamic_scale.numpy())
        elif own_scale is not None:
            optimizer.initial_scale = scale
        try:
            with method_replaced(optimizer, "apply", catch):
                self.train_step(self.batch)
        finally:
            if own_scale is not None:
                optimizer.initial_scale = own_scale
            # those that the step has made are new, and stay as they were made
            for variable, value in zip(model.variables, before, strict=False):
                variable.assign(value)
        divisor = scale if own_scale is not None else optimizer.loss_scale_factor or 1.0
        found = {path: tf.convert_to_tensor(g) for path, g in caught.items() if g is not None}
        return {path: tf.cast(g, tf.float32).numpy() / divisor for path, g in found.items()}

    def innermost(self, error: BaseException) -> Any | None:
        """Return the innermost unit in whose call an exception was raised, None if there is none
        but the model."""
        found, trace = None, error.__traceback__
        while trace is not None:
            layer = trace.tb_frame.f_locals.get("self")
            found = next((unit for unit in self.units if unit is layer), found)
            trace = trace.tb_next
        return found


@contextlib.contextmanager
def _in_policy(policy: str, layers: list[Any]) -> Iterator[None]:
    """Have these layers compute in a policy in this block."""
    before = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = policy
    try:
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            layer.dtype_policy = own


def _parts(layer: Any) -> Iterator[Any]:
    """Yield the layers that are looked at as one: those of a model, without the layers that they
    are made of."""
    for part in layer._flatten_layers(recursive=False, include_self=False):
        if isinstance(part, keras.Model):
            yield from _parts(part)
        else:
            yield part


def _draws(layer: Any) -> bool:
    return any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())


def _some_of(batch: Any) -> Any:
    def first(part: Any) -> Any:
        return part[:EXAMPLES] if isinstance(part, tf.Tensor) and part.shape.rank else part

    return tf.nest.map_structure(first, batch)


def _as_float32(result: Any) -> Any:
    def cast(part: Any) -> Any:
        floating = isinstance(part, tf.Tensor) and part.dtype.is_floating
        return tf.cast(part, tf.float32) if floating else part

    return keras.tree.map_structure(cast, result)


def _errors_of_types() -> tuple[type[Exception], ...]:
    """Return what is raised where dtypes do not fit together, or where a kernel is missing."""
    return (
        TypeError,
        ValueError,
        tf.errors.InvalidArgumentError,
        tf.errors.UnimplementedError,
        tf.errors.NotFoundError,
    )


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
