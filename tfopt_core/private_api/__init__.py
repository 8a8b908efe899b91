"""The private members of TensorFlow and Keras that tfopt uses, and the features that need them.

`features` is the list. Code calls `why_without` before it uses a member, and disables the feature
if the installed version lacks one.
"""

from __future__ import annotations

import functools
import importlib
import inspect

from tfopt_core.private_api.features import FEATURES, Feature

__all__ = ["FEATURES", "Feature", "all_missing", "disabled_so_far", "is_there", "why_without"]

# The answers of `why_without` in this process, by feature.
_asked: dict[str, str] = {}


def why_without(name: str) -> str:
    """Return why a feature is disabled, in a sentence; "" if it is not.

    TensorFlow or Keras is imported if it is not yet.

    :param name: of one of `FEATURES`.
    """
    if name not in _asked:
        _asked[name] = _why_disabled(FEATURES[name])
    return _asked[name]


def disabled_so_far() -> tuple[str, ...]:
    """Return the sentence of every disabled feature that this process looked up."""
    return tuple(filter(None, _asked.values()))


def all_missing() -> tuple[str, ...]:
    """Return the sentence of every feature that is disabled."""
    return tuple(filter(None, map(why_without, FEATURES)))


def _why_disabled(feature: Feature) -> str:
    missing = [member for member in feature.each() if not is_there(*member)]
    if not missing:
        return ""
    # the first member shows which part of which library has changed
    owner, name = missing[0]
    member = f"{owner}{'.' if ':' in owner else ':'}{name}" if name else owner
    words = "Keras" if owner.startswith("keras.") else "TensorFlow"
    version = importlib.import_module(words.lower()).__version__
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return f'{feature.lost}: {words} {version} has no "{member}"{more}'


def is_there(owner: str, name: str) -> bool:
    """Return whether a member exists.

    :param owner: "module", or "module:name" for a class or module within it.
    :param name: of the member; "" checks only the owner.
    """
    module, _, path = owner.partition(":")
    try:
        thing = importlib.import_module(module)
        for part in filter(None, path.split(".")):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return False
    if isinstance(thing, type):
        return not name or any(name in _attributes(base) for base in thing.__mro__)
    return not name or hasattr(thing, name)


@functools.cache
def _attributes(kind: type) -> frozenset[str]:
    """Return the attributes that a class defines, or that its methods name: to make an instance may
    need a cluster."""
    functions = [inspect.unwrap(value) for value in vars(kind).values() if callable(value)]
    codes = [function.__code__ for function in functions if hasattr(function, "__code__")]
    return frozenset([*vars(kind), *(name for code in codes for name in code.co_names)])
