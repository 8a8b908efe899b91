"""What each plugin of a built stack changed, and the code that plugins write of it themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.data import Stage
from tfopt_core.hooks import Change, TrainingOptions
from tfopt_core.hooks.code.plain_code import Names, NoPlainForm, PlainCode, Written
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.guards import named_after
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.records.program import Became
from tfopt_core.training.build import Built
from tfopt_core.version import __version__

# What core cannot write down of a plugin that does not do so itself.
_OWN_AFFAIR = {
    "build_strategy": "strategy", "on_epoch_end": "end of an epoch",
    "wrap_model": "change of the model",
}  # fmt: skip


@attrs.frozen(eq=False)
class StackView:
    """The stack of a build.

    :param names: how the file calls what is the user's.
    """

    built: Built
    names: Names
    says: Written = attrs.field(factory=Written)

    @property
    def changes(self) -> Sequence[Change]:
        """What the plugins' hooks did, in the order of the calls."""
        return self.built.stack.all_changes

    def ask(self) -> None:
        """Have each plugin write down what only it knows.

        :raises NoPlainForm: naming a plugin that does not.
        """
        for stacked in self.built.stack.plugins:
            self._ask(stacked)

    def _ask(self, stacked: StackedPlugin) -> None:
        """Have a plugin write what only it knows; find out what it would have had to write."""
        name, plugin = stacked.name, stacked.plugin
        changes = [change for change in self.changes if change.plugin == name]
        code = PlainCode(
            plugin=name,
            changes=changes,
            model=self.built.model,
            epochs=self.built.run.epochs,
            replicas=self.built.run.replicas,
            names=self.names,
            written=self.says,
        )
        if hasattr(plugin, "export"):
            try:
                plugin.export(code)
            except NoPlainForm as error:
                raise NoPlainForm(error.plugin or name, error.reason) from error
            except Exception as error:
                raise named_after(name, "export", error) from error
            return
        for hook in implementations(plugin):
            if hook in _OWN_AFFAIR:
                raise NoPlainForm(name, f"it does not say how its {_OWN_AFFAIR[hook]} is written")

    def options_before(self) -> TrainingOptions:
        """Return the options of the training that the first plugin was given."""
        for change in self.changes:
            if change.hook == "configure_training":
                before: TrainingOptions = change.before
                return before
        return self.built.training

    def changer_of(self, field: str) -> str | None:
        """Return the plugin that was the last to change a field of the options."""
        found = None
        for change in self.changes:
            if change.hook != "configure_training":
                continue
            if getattr(change.before, field) is not getattr(change.after, field):
                found = change.plugin
        return found

    def owner(self, stage: Stage) -> str | None:
        """Return the plugin that put a stage into a plan, in a part of its source too."""
        for change in self.changes:
            if change.hook != "build_dataset":
                continue
            before, after = _all_stages(change.before), _all_stages(change.after)
            if id(stage) in after and id(stage) not in before:
                return change.plugin
        return None

    def became(self, left_out: Mapping[str, str]) -> tuple[Became, ...]:
        """Return what each plugin of the recipe is in the file, in order.

        :param left_out: why plugins are not in it.
        """
        asked = [entry.use for entry in self.built.job.recipe.plugins]
        return tuple(self._became(name, left_out) for name in dict.fromkeys([*asked, *left_out]))

    def _became(self, name: str, left_out: Mapping[str, str]) -> Became:
        if name in left_out:
            return Became(plugin=name, left_out=left_out[name])
        words = dict.fromkeys(
            f"{change.split}: {word}" if change.split else word
            for change in self.changes
            if change.plugin == name and change.changed
            for word in change.describe()
        )
        notes = self.says.notes.get(name, ())
        changed = tuple(words) or tuple(self.says.shown.get(name, ()))
        return Became(plugin=name, changed=changed, notes=tuple(notes))


def _all_stages(plan: Any) -> set[int]:
    found = {id(stage) for stage in plan.stages}
    for part in plan.source.parts:
        found |= _all_stages(part)
    return found


def versions() -> dict[str, str]:
    """With what the file is written."""
    import keras
    import tensorflow

    return {
        "tfopt": __version__,
        "TensorFlow": tensorflow.__version__,
        "Keras": keras.__version__,
    }
