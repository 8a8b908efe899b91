"""What each plugin of a built stack changed, and the code that plugins write themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.data import Stage
from tfopt_core.hooks import Change, TrainingOptions
from tfopt_core.hooks.code.plain_code import Names, NoPlainForm, PlainCode, Written
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.guards import guarded
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.records.program import ExportedPlugin
from tfopt_core.training.build import Built
from tfopt_core.version import __version__

# Hooks that core cannot write down: the plugin must export them itself.
_OWN_AFFAIR = {
    "build_strategy": "strategy", "on_epoch_end": "end of an epoch",
    "wrap_model": "change of the model",
}  # fmt: skip


@attrs.frozen(eq=False)
class StackView:
    """The stack of a build.

    :param names: expressions for the user's objects in the file.
    """

    built: Built
    names: Names
    written: Written = attrs.field(factory=Written)

    @property
    def changes(self) -> Sequence[Change]:
        """The changes of the plugins' hooks, in call order."""
        return self.built.stack.all_changes

    def ask(self) -> None:
        """Let each plugin write its own code.

        :raises NoPlainForm: naming a plugin that has no plain form.
        """
        for stacked in self.built.stack.plugins:
            self._ask(stacked)

    def _ask(self, stacked: StackedPlugin) -> None:
        """Let a plugin write its own code; refuse one that must but cannot."""
        name, plugin = stacked.name, stacked.plugin
        changes = [change for change in self.changes if change.plugin == name]
        code = PlainCode(
            plugin=name,
            changes=changes,
            model=self.built.model,
            epochs=self.built.run.epochs,
            replicas=self.built.run.replicas,
            names=self.names,
            written=self.written,
        )
        if hasattr(plugin, "export"):
            try:
                guarded(name, "export", lambda: plugin.export(code))
            except NoPlainForm as error:
                raise NoPlainForm(error.plugin or name, error.reason) from error
            return
        for hook in implementations(type(plugin)):
            if hook in _OWN_AFFAIR:
                raise NoPlainForm(name, f"it does not say how its {_OWN_AFFAIR[hook]} is written")

    def options_before(self) -> TrainingOptions:
        """Return the training options before the first plugin."""
        for change in self.changes:
            if change.hook == "configure_training":
                before: TrainingOptions = change.before
                return before
        return self.built.training

    def changer_of(self, field: str) -> str | None:
        """Return the last plugin that changed a field of the options."""
        plugin = None
        for change in self.changes:
            if change.hook != "configure_training":
                continue
            if getattr(change.before, field) is not getattr(change.after, field):
                plugin = change.plugin
        return plugin

    def owner(self, stage: Stage) -> str | None:
        """Return the plugin that added a stage to a plan or to a part of its source."""
        for change in self.changes:
            if change.hook != "build_dataset":
                continue
            before, after = _all_stages(change.before), _all_stages(change.after)
            if id(stage) in after and id(stage) not in before:
                return change.plugin
        return None

    def exported_plugins(self, left_out: Mapping[str, str]) -> tuple[ExportedPlugin, ...]:
        """Return the form of each plugin of the recipe in the file, in order.

        :param left_out: the reason by plugin, for those that are not in the file.
        """
        names = [entry.use for entry in self.built.job.recipe.plugins]
        return tuple(self._exported(name, left_out) for name in dict.fromkeys([*names, *left_out]))

    def _exported(self, name: str, left_out: Mapping[str, str]) -> ExportedPlugin:
        if name in left_out:
            return ExportedPlugin(plugin=name, left_out=left_out[name])
        words = dict.fromkeys(
            f"{change.split}: {word}" if change.split else word
            for change in self.changes
            if change.plugin == name and change.changed
            for word in change.describe()
        )
        notes = self.written.notes.get(name, ())
        changed = tuple(words) or tuple(self.written.shown.get(name, ()))
        return ExportedPlugin(plugin=name, changed=changed, notes=tuple(notes))


def _all_stages(plan: Any) -> set[int]:
    stages = {id(stage) for stage in plan.stages}
    for part in plan.source.parts:
        stages |= _all_stages(part)
    return stages


def versions() -> dict[str, str]:
    """Return the versions of tfopt, TensorFlow and Keras."""
    import keras
    import tensorflow

    return {
        "tfopt": __version__,
        "TensorFlow": tensorflow.__version__,
        "Keras": keras.__version__,
    }
