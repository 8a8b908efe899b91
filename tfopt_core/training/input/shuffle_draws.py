"""Count how often reshuffling shuffles draw their seeds, so that each pass goes on where it must.

Such a shuffle draws other seeds for each iterator over its data set, also for one that adapts a
layer or shows a batch before `fit`. With a stack, a fit may read another data set in the place of
its own, whose shuffles would begin anew; and a resident loop reads no data set at all.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import attrs

from tfopt_core.data.anatomy import random_ops
from tfopt_core.data.dissect import walk
from tfopt_core.data.plan import DataPlan
from tfopt_core.errors import PluginRefused
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without

# The methods by which a data set is read, in Python and in one operation.
READING = ("__iter__", "reduce")
IN_A_FUNCTION = (
    "a callback gives the data that this fit reads to a tf.function, and how often that shuffles "
    "them is not known"
)

READ_OTHERWISE = (
    "an earlier fit has read these data as other plugins made them, and what was drawn there "
    "cannot go on in another data set"
)


@attrs.define(eq=False)
class _Draws:
    """How often the shuffles drew that take each other's place."""

    count: int = 0


@attrs.frozen(eq=False)
class _InPlace:
    """What took the place of a shuffle that draws while it is read: None if other data or maps
    stand before it. `plugin` is the last one that changed its data set."""

    shuffle: Any
    plugin: str


@attrs.define(eq=False)
class ShuffleDraws:
    """Counts the iterators over each reshuffling shuffle while it is installed, and has those that
    are linked draw in turn, as if they were one.

    :param read: the caches that were read.
    :ivar _read_as: by data set, the key of what replaces it "now", and in the last "fit".

    A shuffle that draws while it is read (before a `repeat`) cannot be counted: what took its place
    once, or it itself, is read in all data sets of the script that hold it.
    """

    read: WeakSet[Any] = attrs.field(factory=WeakSet)
    _drawn: WeakKeyDictionary[Any, int] = attrs.field(factory=WeakKeyDictionary)
    _linked: WeakKeyDictionary[Any, _Draws] = attrs.field(factory=WeakKeyDictionary)
    _kept: WeakKeyDictionary[Any, dict[Any, Any]] = attrs.field(factory=WeakKeyDictionary)
    _read_as: WeakKeyDictionary[Any, dict[str, Any]] = attrs.field(factory=WeakKeyDictionary)
    _in_place: WeakKeyDictionary[Any, _InPlace] = attrs.field(factory=WeakKeyDictionary)
    _uncounted: WeakSet[Any] = attrs.field(factory=WeakSet)
    _in_fit: WeakKeyDictionary[Any, str] = attrs.field(factory=WeakKeyDictionary)
    _put_back: list[Callable[[], None]] = attrs.field(factory=list)
    _iter: Callable[[Any], Any] = iter

    def install(self) -> None:
        """Replace the methods by which a `tf.data.Dataset` is read, or given to a `tf.function`."""
        self._iter = tf.data.Dataset.__iter__
        for name in READING:
            self._replace(tf.data.Dataset, name, self._counting)
        if not why_without("data-sets-of-functions"):
            self._replace(tf.data.DatasetSpec, "_to_components", self._giving)

    def _replace(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        method = getattr(owner, name)
        setattr(owner, name, wrapped(method))
        self._put_back.append(functools.partial(setattr, owner, name, method))

    def remove(self) -> None:
        """Restore the methods."""
        while self._put_back:
            self._put_back.pop()()

    def counter(self, dataset: Any) -> Callable[[], int] | None:
        """Return a function that counts the iterators over a data set; None if nothing counts them,
        or the data set draws no seeds."""
        shuffles = list(walk.reshuffling(dataset))
        if not self._put_back or not shuffles:
            return None
        return lambda: max(self._drawn.get(one, 0) for one in shuffles)

    def follow(self, given: Any, replacement: Any) -> None:
        """Have the shuffles of a data set draw as often as those with the same seeds have drawn in
        another one until now."""
        if not isinstance(given, tf.data.Dataset) or not isinstance(replacement, tf.data.Dataset):
            return
        if not draws_at_the_start(replacement):
            return
        begun = {seeds: self._drawn.get(one, 0) for seeds, one in _by_seeds(given).items()}
        for seeds, shuffle in _by_seeds(replacement).items():
            for _ in range(begun.get(seeds, 0) - self._drawn.get(shuffle, 0)):
                iter(shuffle)

    def link(self, given: Any, replacement: Any, plugin: str = "") -> None:
        """Have each shuffle of a data set draw on where the one with the same seeds has ended in
        the data set that it replaces, and the other way round.

        :param plugin: the last one that changed the data, where a fit reads them to its end.
        """
        if not isinstance(given, tf.data.Dataset) or not isinstance(replacement, tf.data.Dataset):
            return
        if not draws_at_the_start(replacement) or not draws_at_the_start(given):
            return
        own = _by_seeds(given)
        self._in_fit.update(dict.fromkeys(own.values(), plugin) if plugin else {})
        for seeds, shuffle in _by_seeds(replacement).items():
            if seeds in own and own[seeds] is not shuffle:
                self._linked[shuffle] = self._draws_of(own[seeds])

    def kept(self, given: Any, key: Any, replacement: Any, plugin: str) -> Any:
        """Return the data set that replaces another one in all fits, the first of those with this
        key: a shuffle that draws while it is read, and what a cache holds, can only go on in the
        same data set.

        :param plugin: the last one that changed the data.
        :raises PluginRefused: where an earlier fit has read them with another key, and what was
            drawn then is in another data set.
        """
        if not isinstance(given, tf.data.Dataset):
            return replacement
        if draws_at_the_start(given) and not any(walk.caches(given)):
            return replacement
        read_as = self._read_as.setdefault(given, {})
        drawn = not draws_at_the_start(given) or any(map(_holds_draws, walk.caches(given)))
        if drawn and read_as.get("fit", key) != key:
            raise PluginRefused(READ_OTHERWISE, plugin)
        read_as["now"], read_as["by"] = key, plugin
        kept = self._kept.setdefault(given, {}).setdefault(key, replacement)
        own = _by_seeds(given)
        for seeds, shuffle in _by_seeds(kept).items():
            if seeds in own and own[seeds] is not shuffle:
                same = walk.made_of(own[seeds]) == walk.made_of(shuffle)
                self._in_place[own[seeds]] = _InPlace(shuffle if same else None, plugin)
        for cache, other in zip(walk.caches(given), walk.caches(kept), strict=False):
            if cache is not other and cache.element_spec == other.element_spec:
                self._in_place[cache] = _InPlace(other, plugin)
        return kept

    def current(self, given: Any) -> Any:
        """Return the data as a fit reads them: a data set of the script's, built on the shuffle
        that took the place of its last one in another data set, or as they are given.

        :raises PluginRefused: if they cannot be built so, naming the plugin that changed others.
        """
        if not isinstance(given, tf.data.Dataset):
            return given
        data, plugin = self._as_read(given)
        if data is None:
            raise PluginRefused(
                "a shuffle of these data was replaced in an earlier fit, with what stands before "
                "it, and they cannot be built on the one in its place", plugin,
            )  # fmt: skip
        return data

    def _as_read(self, given: Any) -> tuple[Any, str]:
        """Return the data set that `current` returns, None if it cannot be built, and the plugin
        that replaced its shuffle, "" for none."""
        # from the end: on what was replaced there nothing else begins anew
        replaced = [one for one in walk.datasets(given) if one in self._in_place]
        if not replaced or given in self._kept:
            return given, ""
        source, *behind = DataPlan.from_dataset(given, kept=replaced[:1]).stages
        place = self._in_place[replaced[0]]
        data, plugin = place.shuffle, place.plugin
        if data is None or getattr(source, "value", None) is not replaced[0]:
            return None, plugin
        for stage in behind:
            data = stage.lower(data)
        return data, plugin

    def note_fit(self, *given: Any) -> None:
        """Note that a fit has ended, which has read these data of its own."""
        self._in_fit.clear()
        for data in given:
            if not isinstance(data, tf.data.Dataset):
                continue
            if data in self._kept:
                self._read_as[data]["fit"] = self._read_as[data]["now"]
            if draws_at_the_start(data):
                continue
            for own in walk.reshuffling(data):
                place = self._in_place.get(own)
                if (read := own if place is None else place.shuffle) is not None:
                    self._uncounted.add(read)

    def begun(self, given: Any) -> frozenset[Any]:
        """Return the shuffles of a data set that nothing may replace: they draw while it is read,
        here or in another data set, and have drawn already, as those did that took their place.
        So it is with caches that were read and hold what was drawn."""
        shuffles, caches = frozenset(walk.reshuffling(given)), frozenset(walk.caches(given))
        if given in self._kept and caches:
            return frozenset()
        begun = shuffles & frozenset(self._uncounted)
        begun |= {cache for cache in caches if cache in self.read and _holds_draws(cache)}
        if given in self._kept or draws_at_the_start(given):
            return begun
        return begun | {one for one in shuffles if self._draws_of(one).count}

    def is_uncounted(self, dataset: Any) -> bool:
        """Return whether a shuffle of the data set is read where nothing counts it."""
        return any(shuffle in self._uncounted for shuffle in walk.reshuffling(dataset))

    def _draws_of(self, shuffle: Any) -> _Draws:
        if shuffle not in self._linked:
            self._linked[shuffle] = _Draws(self._drawn.get(shuffle, 0))
        return self._linked[shuffle]

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def counted(dataset: Any, *given: Any, **named: Any) -> Any:
            # what is evaluated in a callback goes on where the fit has ended, and the fit after it
            [*_, kept] = self._kept.get(dataset, {0: dataset}).values()
            if kept.element_spec == dataset.element_spec:
                dataset = kept
            elif any(map(_holds_draws, walk.caches(dataset))):  # features in place of inputs
                raise PluginRefused(READ_OTHERWISE, self._read_as[dataset]["by"])
            current, _ = self._as_read(dataset)
            dataset = dataset if current is None else current
            self.read.update(walk.caches(dataset))
            for shuffle in walk.reshuffling(dataset):
                draws = self._moved_on(shuffle)
                draws.count += 1
                self._drawn[shuffle] = draws.count
            return method(dataset, *given, **named)

        return counted

    def _moved_on(self, shuffle: Any) -> _Draws:
        """Have a shuffle draw what those have drawn that it is linked with."""
        draws = self._draws_of(shuffle)
        for _ in range(draws.count - self._drawn.get(shuffle, 0)):
            self._iter(shuffle)
        self._drawn[shuffle] = draws.count
        return draws

    def _giving(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def given(spec: Any, dataset: Any) -> Any:
            # the function reads it as often as it likes, so from now on nothing may replace it
            with tf.init_scope():
                for shuffle in walk.reshuffling(dataset):
                    if shuffle in self._in_fit:
                        raise PluginRefused(IN_A_FUNCTION, self._in_fit[shuffle])
                    self._moved_on(shuffle)
                    self._uncounted.add(shuffle)
            return method(spec, dataset)

        return given


def draws_at_the_start(dataset: Any) -> bool:
    """Return whether each shuffle draws when an iterator over the whole data set is made.

    One that draws while it is read is not moved on: reading may take as long as training.
    """
    return walk.passes_to_read(dataset) == "none"


def _holds_draws(cache: Any) -> bool:
    """Return whether a cache would hold something else if it were filled again."""
    plan = DataPlan.from_dataset(cache)
    return any(random_ops(plan, index) for index in range(len(plan.stages)))


def _by_seeds(dataset: Any) -> dict[tuple[tuple[int, int], int], Any]:
    """Return the shuffles by their seeds, and how many before them have the same."""
    found: dict[tuple[tuple[int, int], int], Any] = {}
    seen = Counter[tuple[int, int]]()
    for shuffle in walk.reshuffling(dataset):
        seeds = walk.seeds_of(shuffle)
        found[seeds, seen[seeds]] = shuffle
        seen[seeds] += 1
    return found
