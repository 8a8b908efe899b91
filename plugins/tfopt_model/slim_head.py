"""Slim head: fewer trainable parameters in the dense layers at the end of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tfopt_core.plugins import Effect, Plugin, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import keras, np, number_or
from tfopt_model.graph_rewrite import Call, calls_of, made_anew, parameters, rewritten, why_no_graph


def with_slim_head(
    model: Any, pool: bool = True, rank: int | None = None
) -> tuple[Any, list[str]] | str:
    """Return a model with fewer parameters in its dense layers, which shares all other layers, and
    what became of which layers; or why nothing is changed.

    :param pool: whether a feature map that is flattened before a dense layer is averaged instead.
        The kernel of that dense layer becomes the sum over the places, so that on a feature map
        that is the same everywhere it computes what it did.
    :param rank: the kernel of a dense layer becomes a product of two of this rank, its best
        approximation, where that has fewer parameters; None for none.
    """
    reason = why_no_graph(model)
    if reason:
        return reason
    calls = calls_of(model)
    pooled = _flattened_maps(calls) if pool else set()
    changes: list[str] = []

    def replace(call: Call) -> Any:
        if call.index in pooled:
            changes.append(f'"{call.layer.name}" became an average over the places')
            return _averaged(call)
        if not _is_dense(call) or _called_again(calls, call):
            return None
        dense = _fitted(call.layer, call.tensors[0].shape[-1])
        factored = None if rank is None else _factored(dense, rank)
        if factored is not None:
            changes.append(f'"{dense.name}" has rank {rank}')
            return factored[1](factored[0](call.tensors[0]))
        return None if dense is call.layer else dense(call.tensors[0])

    slim = rewritten(model, replace)
    if not changes:
        return _why_nothing(calls, pool, rank)
    if parameters(slim)[0] >= parameters(model)[0]:
        return "it would have no fewer trainable parameters"
    return slim, changes


def _flattened_maps(calls: Sequence[Call]) -> set[int]:
    """Return the indices of the calls of Flatten on feature maps of several places that only lead
    to dense layers."""
    layers = keras.layers
    shapeless = (layers.Dropout, layers.Activation, layers.ReLU, layers.LeakyReLU)

    def leads_to_dense(call: Call) -> bool:
        behind = [other for other in calls if other.reads(call)]
        return bool(behind) and all(
            leads_to_dense(one) if isinstance(one.layer, shapeless) else _is_dense(one)
            for one in behind
        )

    found = set()
    for call in calls:
        if not isinstance(call.layer, layers.Flatten) or _called_again(calls, call):
            continue
        places = call.tensors[0].shape[1:-1]
        if not places or None in places or max(places) == 1:
            continue
        if call.layer.data_format != "channels_first" and leads_to_dense(call):
            found.add(call.index)
    return found


def _averaged(call: Call) -> Any:
    """Return the mean of a feature map over its places."""
    tensor = call.tensors[0]
    kinds = {3: "GlobalAveragePooling1D", 4: "GlobalAveragePooling2D", 5: "GlobalAveragePooling3D"}
    kind = getattr(keras.layers, kinds[len(tensor.shape)])
    return kind(name=f"{call.layer.name}_average")(tensor)


def _fitted(dense: Any, width: int) -> Any:
    """Return the dense layer for inputs of this width, its kernel summed over the places where a
    flattened feature map is averaged now."""
    before = dense.kernel.shape[0]
    if before == width:
        return dense
    new = made_anew(dense)
    if before % width == 0:
        new.build((None, width))
        kernel = dense.kernel.numpy().reshape(before // width, width, -1).sum(0)
        new.kernel.assign(kernel)
        if new.bias is not None:
            new.bias.assign(dense.bias.numpy())
    return new


def _factored(dense: Any, rank: int) -> tuple[Any, Any] | None:
    """Return two dense layers of a rank that approximate one; None if they have as many weights."""
    if not dense.built:
        return None
    width, units = dense.kernel.shape
    if rank * (width + units) >= width * units:
        return None
    left, values, right = np.linalg.svd(dense.kernel.numpy(), full_matrices=False)
    scale = np.sqrt(values[:rank])
    reducing = keras.layers.Dense(
        rank,
        use_bias=False,
        kernel_initializer=dense.kernel_initializer,
        kernel_regularizer=dense.kernel_regularizer,
        dtype=dense.dtype_policy,
        name=f"{dense.name}_reduced",
    )
    reducing.build((None, width))
    reducing.kernel.assign(left[:, :rank] * scale)
    last = made_anew(dense)
    last.build((None, rank))
    last.kernel.assign(scale[:, None] * right[:rank])
    if last.bias is not None:
        last.bias.assign(dense.bias.numpy())
    return reducing, last


def _is_dense(call: Call) -> bool:
    return type(call.layer) is keras.layers.Dense and len(call.tensors[0].shape) == 2


def _called_again(calls: Sequence[Call], call: Call) -> bool:
    """Return whether the layer is called in several places, so that its weights are shared."""
    return sum(other.layer is call.layer for other in calls) > 1


def _why_nothing(calls: Sequence[Call], pool: bool, rank: int | None) -> str:
    reasons = []
    if pool:
        reasons.append("no feature map of several places is flattened before a dense layer only")
    if rank is not None:
        widths = [
            f'"{call.layer.name}" ({" x ".join(map(str, call.layer.kernel.shape))})'
            for call in calls
            if _is_dense(call)
        ]
        dense = ", ".join(widths) or "there is none"
        reasons.append(f"rank {rank} makes no dense layer on vectors smaller: {dense}")
    else:
        reasons.append("rank is off")
    return "; ".join(reasons)


@plugin
class SlimHead(Plugin):
    """Gives the dense layers at the end of a model fewer parameters.

    What it does: averages a feature map that is flattened before a dense layer (global pooling),
    so that its kernel has a row for each channel, not for each channel at each place. With rank,
    the kernel of each dense layer on vectors becomes the product of two of that rank, where this
    has fewer parameters. All other layers stay the same objects, with their weights.

    Why it helps: where most parameters are in the first dense layer, the optimizer and the
    gradients take less time and memory, and there is less to overfit.

    When it does not: where the place in the picture matters (digits in a corner), pooling loses
    it; where the convolutions take the time, a step gets little faster.

    Mixes with: swap-backbone, which comes before it; l2, adaptive-l2 and dropconnect after it.
    Scripts are refused: a script keeps its own model.

    Reference: Lin et al., Network in Network, https://arxiv.org/abs/1312.4400
    """

    targets = ("compute", "memory")
    model_change = "replaces"
    after = ("swap-backbone",)
    equivalence = "changes"  # another model is trained

    pool: bool = setting(
        default=True,
        help="Whether a feature map is averaged in place of being flattened.",
    )
    rank: int | Literal["off"] = number_or(
        "off", "The rank of the kernels of dense layers, at least 1; off leaves their rank."
    )

    def __attrs_post_init__(self) -> None:
        if not self.pool and self.rank == "off":
            raise ValueError("pool = false leaves nothing to do; set rank")

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Return the model with the slimmer head."""
        slimmed = with_slim_head(model, self.pool, None if self.rank == "off" else self.rank)
        state = run.state_of(self)
        state["reason"] = slimmed if isinstance(slimmed, str) else ""
        if isinstance(slimmed, str):
            return model
        slim, state["changes"] = slimmed
        state["before"] = parameters(model)[0]
        return slim

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the trainable parameters back from the model."""
        state = run.state_of(self)
        if state["reason"]:
            return Effect.not_applied(state["reason"])
        return Effect.applied_as(
            f"{state['before']:,} -> {parameters(model)[0]:,} trainable parameters: "
            + ", ".join(state["changes"])
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        lines = []
        if self.pool:
            lines.append("# in the place of Flatten before a large dense layer")
            lines.append("x = keras.layers.GlobalAveragePooling2D()(x)")
        if self.rank != "off":
            lines.append("# a large dense layer as a product of two")
            lines.append(f"x = keras.layers.Dense({self.rank}, use_bias=False)(x)")
            lines.append("x = keras.layers.Dense(units, activation)(x)")
        return "\n".join(lines)
