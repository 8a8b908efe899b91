"""Check which private members the installed TensorFlow and Keras have."""

from __future__ import annotations

import dis
import functools
import importlib
import importlib.metadata
import inspect
from collections.abc import Iterator

import attrs

from tfopt_core.private_api.features import FEATURES, Feature


@attrs.define
class Lookup:
    """Looks up members, and caches the results.

    :param hidden: members, as owner and name, to treat as missing, for tests.
    """

    hidden: frozenset[tuple[str, str]] = frozenset()
    _missing: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    def missing(self, feature: Feature) -> tuple[str, ...]:
        """Return the missing members of a feature, as `module:Class.name`."""
        if feature.name not in self._missing:
            self._missing[feature.name] = tuple(
                _in_words(owner, name)
                for owner, name in feature
                if (owner, name) in self.hidden or not is_there(owner, name)
            )
        return self._missing[feature.name]

    def why_without(self, feature: Feature) -> str:
        """Return what is lost and why, in a sentence; "" if nothing is missing."""
        missing = self.missing(feature)
        if not missing:
            return ""
        # the first member shows which part of which library has changed
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return f'{feature.lost}: {_version(missing[0])} has no "{missing[0]}"{more}'

    def disabled_so_far(self) -> tuple[str, ...]:
        """Return the sentences of the disabled features that were looked up."""
        return tuple(
            self.why_without(_BY_NAME[name]) for name, missing in self._missing.items() if missing
        )


_lookup = Lookup()
_BY_NAME = {feature.name: feature for feature in FEATURES}


def why_without(name: str) -> str:
    """Return why a feature is disabled, in a sentence; "" if it is not.

    TensorFlow or Keras is imported if it is not yet.

    :param name: of one of `FEATURES`.
    """
    return _lookup.why_without(_BY_NAME[name])


def missing_members(feature: Feature) -> tuple[str, ...]:
    """Return the members of a feature that the installed versions do not have."""
    return _lookup.missing(feature)


def disabled_so_far() -> tuple[str, ...]:
    """Return the sentence of every disabled feature that this process looked up."""
    return _lookup.disabled_so_far()


def all_missing() -> tuple[str, ...]:
    """Return the sentence of every feature that is disabled."""
    sentences = (_lookup.why_without(feature) for feature in FEATURES)
    return tuple(sentence for sentence in sentences if sentence)


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
    if not name:
        return True
    if isinstance(thing, type):
        return any(name in _attributes(base) for base in thing.__mro__)
    return hasattr(thing, name)


@functools.cache
def _attributes(kind: type) -> frozenset[str]:
    """Return the attributes that a class defines, or sets on instances in its methods.

    Methods are inspected, since an instance may need a cluster.
    """
    stored = (name for value in vars(kind).values() for name in _stored(value))
    return frozenset([*vars(kind), *stored])


def _stored(value: object) -> Iterator[str]:
    """Yield the names of attributes that a method stores."""
    code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
    if code is not None:
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_ATTR":
                yield str(instruction.argval)


def _in_words(owner: str, name: str) -> str:
    if not name:
        return owner
    return f"{owner}.{name}" if ":" in owner else f"{owner}:{name}"


def _version(member: str) -> str:
    distribution, label = ("keras", "Keras"), ("tensorflow", "TensorFlow")
    name, words = distribution if member.startswith("keras.") else label
    try:
        return f"{words} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return words
