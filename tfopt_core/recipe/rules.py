"""The rules between the keys of a recipe: what excludes, replaces or needs another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tfopt_core.recipe.tree import Fault, Node
from tfopt_core.recipe.values import listing

WORKLOAD_CHOICES = ("use", "factory", "script", "module")
# Only scripts have these, started by their path or as a module.
SCRIPT_KEYS = ("args", "environment", "folder", "isolate", "loop", "fit", "max_epochs", "max_steps")
# Keys that are about calls of `fit`.
FIT_KEYS = ("fit", "max_epochs")
# What is refused, with its mend: beside a script, beside its own loop, and without a script.
_NOT_OF_SCRIPT = {
    "epochs": ("a script sets this itself", 'remove it; "max_epochs" cuts a script short'),
    "batch_size": ("a script sets this itself", "remove it"),
    "options": (
        "options are arguments of a factory",
        'give a script its arguments as args = ["--lr", "0.1"]',
    ),
}
_NOT_OF_OWN_LOOP = dict.fromkeys(FIT_KEYS, (
    "a loop of the script's own has no call of fit",
    'remove it; "max_steps" ends a run after so many updates',
))  # fmt: skip
_ABOUT_SCRIPT = "this is about a script, and there is none"
_OF_SCRIPT_ALONE = {
    **dict.fromkeys(SCRIPT_KEYS, (_ABOUT_SCRIPT, "remove it")),
    "args": (_ABOUT_SCRIPT, "give a factory its arguments under [workload.options]"),
}
TARGET_BOUNDS = ("at_least", "at_most")
# What a recipe says about any plugin, so no plugin can have it as a setting.
RESERVED_KEYS = ("use", "enabled")


def workload_rules(given: Set[str]) -> Iterator[Fault]:
    """Yield a fault unless there is one workload, and for keys that do not apply to it."""
    yield from exactly_one(given, WORKLOAD_CHOICES, "workload")
    refused = _OF_SCRIPT_ALONE
    if given & {"script", "module"}:
        refused = {**_NOT_OF_SCRIPT, **(_NOT_OF_OWN_LOOP if "loop" in given else {})}
    for key, (message, mend) in refused.items():
        if key in given:
            yield Fault(message, mend, at=(key,))


def metric_is_given(given: Set[str]) -> Iterator[Fault]:
    """Yield a fault if the metric is missing."""
    if "metric" not in given:
        yield Fault('"metric" is missing', 'add, for example, metric = "val_accuracy"')


def exactly_one(given: Set[str], names: tuple[str, ...], what: str) -> Iterator[Fault]:
    """Yield a fault unless exactly one of some keys is given; `what` names them in the message."""
    present = [name for name in names if name in given]
    if not present:
        yield Fault(f"no {what}", f"give {listing(names, 'or')}")
    elif len(present) > 1:
        both = listing([f'"{name}"' for name in present], "and")
        count = {2: "two", 3: "three", 4: "four"}[len(present)]
        yield Fault(f"{count} {what}s: {both}", "keep one of them", at=(present[1],))


def without_replaced(base: Node, top: Node) -> Node:
    """Return `base` without the alternatives that `top` replaces.

    Otherwise a base's `use` and the extending recipe's `factory` would be two workloads, its
    `at_least` and an `at_most` two bounds, and its `budget` beside a number of pairs an error.
    """
    ours, theirs = below(base, "workload"), below(top, "workload")
    if chosen := [key for key in WORKLOAD_CHOICES if key in theirs]:
        base = _edit(base, "workload", WORKLOAD_CHOICES)
        if any(key not in ours or ours[key].value != theirs[key].value for key in chosen):
            # these belong to the other workload, or name options of it
            base = _edit(base, "workload", ("options", *SCRIPT_KEYS))
            base = _edit(_edit(base, "measure", ["baseline"]), "tune", ["options"])
        if {"script", "module"} & set(chosen):
            base = _edit(base, "workload", ("epochs", "batch_size"))  # a script sets these itself
    # there are either pairs or a budget
    time = below(top, "measure")
    if "budget" in time and "pairs" not in time:
        base = _edit(base, "measure", ["pairs"])
    elif "pairs" in time and "budget" not in time:
        base = _edit(base, "measure", ["budget"])
    measure = base.table().get("measure")
    if measure is None:
        return base
    if set(below(top, "measure", "target")).intersection(TARGET_BOUNDS):
        measure = _edit(measure, "target", TARGET_BOUNDS)
    new = below(top, "measure", "quality").get("metric")
    old = below(base, "measure", "quality").get("metric")
    if new is not None and old is not None and new.value != old.value:
        # direction and tolerance belong to the other metric
        measure = _edit(measure, "quality", ["direction", "tolerance"])
    return Node({**base.table(), "measure": measure}, base.place)


def below(node: Node, *keys: str) -> dict[str, Node]:
    for key in keys:
        child = node.table().get(key)
        if child is None:
            return {}
        node = child
    return node.table()


def _edit(node: Node, key: str, dropped: Sequence[str]) -> Node:
    """Return `node` without some keys of the table at `key`."""
    table = node.table().get(key)
    if table is None or not isinstance(table.value, dict):
        return node
    kept = {name: item for name, item in table.value.items() if name not in dropped}
    return Node({**node.table(), key: Node(kept, table.place)}, node.place)
