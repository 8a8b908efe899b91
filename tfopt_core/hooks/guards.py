"""Wrap each plugin's hooks: record changes, refuse wrong returns, report swallowed failures."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import attrs

from tfopt_core.errors import (
    PluginError,
    PluginRefused,
    TfoptError,
    describe,
    ran_out_of_memory,
)
from tfopt_core.hooks.changes import Change
from tfopt_core.hooks.defaults import Defaults
from tfopt_core.hooks.markers import hookimpl

Guarded = Generator[None, Any, Any]


@attrs.define(eq=False)
class Trace:
    """The records of one stack's guards: every change, and the first failure of a call."""

    changes: list[Change] = attrs.field(factory=list)
    failure: BaseException | None = None
    value: Any = None


@attrs.frozen(eq=False)
class Guard:
    """Registered right after one plugin, so it sees what that plugin alone did.

    `plugin` is None for core's defaults.
    """

    plugin: str | None
    hooks: frozenset[str]
    defaults: Defaults
    trace: Trace

    @hookimpl(wrapper=True)
    def configure_runtime(self) -> Guarded:
        return (yield from self._watch("configure_runtime"))

    @hookimpl(wrapper=True)
    def configure_precision(self) -> Guarded:
        return (yield from self._watch("configure_precision"))

    @hookimpl(wrapper=True)
    def build_dataset(self, split: str) -> Guarded:
        return (yield from self._watch("build_dataset", split))

    @hookimpl(wrapper=True)
    def wrap_model(self) -> Guarded:
        return (yield from self._watch("wrap_model"))

    @hookimpl(wrapper=True)
    def configure_training(self) -> Guarded:
        return (yield from self._watch("configure_training"))

    def _watch(self, hook: str, split: str | None = None) -> Guarded:
        try:
            value = yield
            if self.plugin is not None and hook in self.hooks:
                self._check(hook, value)
        except BaseException as error:
            # The first failure is kept: an outer plugin's `try` must not swallow it.
            if self.trace.failure is None:
                self.trace.failure = self._named(hook, error)
            raise
        if self.plugin is not None and hook in self.hooks:
            before, self.trace.value = self.trace.value, value
            self.trace.changes.append(Change(self.plugin, hook, before, value, split))
        elif self.plugin is None:
            self.trace.value = value
        return value

    def _check(self, hook: str, value: Any) -> None:
        assert self.plugin is not None
        expected = self.defaults.expected(hook)
        wanted = "the value" if expected is None else f"a {expected.__name__}"
        if value is None:
            raise PluginError(self.plugin, hook, f"returned nothing; end it with return, {wanted}")
        if expected is not None and not isinstance(value, expected):
            raise PluginError(
                self.plugin, hook, f"returned a {type(value).__name__}; return {wanted}"
            )

    def _named(self, hook: str, error: BaseException) -> BaseException:
        return error if self.plugin is None else named_after(self.plugin, hook, error)


def named_after(plugin: str, hook: str, error: BaseException) -> BaseException:
    """Return the error to show: a failure or refusal that names its plugin."""
    if isinstance(error, PluginRefused):
        return error.named(plugin)
    if isinstance(error, TfoptError | KeyboardInterrupt):
        return error
    named = PluginError(plugin, hook, describe(error), out_of_memory=ran_out_of_memory(error))
    named.__cause__ = error
    return named


def guarded(plugin: str, hook: str, call: Callable[[], Any]) -> Any:
    """Call a method of a plugin. Return its value; an error that it raises names the plugin."""
    try:
        return call()
    except BaseException as error:
        named = named_after(plugin, hook, error)
        if named is error:
            raise  # `from error` would make it its own cause
        raise named from error
