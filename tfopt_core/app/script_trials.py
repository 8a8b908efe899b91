"""Try plugins on a script or factory that nobody has written a recipe for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.script_target import without_places
from tfopt_core.errors import CannotShare

if TYPE_CHECKING:
    from tfopt_core.app.apply_options import ApplyOptions
    from tfopt_core.diagnosis.draft import Draft
    from tfopt_core.diagnosis.screening import Tried
    from tfopt_core.records.diagnosis import Diagnosed
    from tfopt_core.records.dry_build import Prepared
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.shared_process import SharedProcess
    from tfopt_core.workers.supervise import Limits


@attrs.define(eq=False)
class ScriptTrials:
    """Tries plugins, on a script in the process of the look while that is there.

    :param label: the name of the script or factory in messages.
    :param recipe: where its recipe goes.
    :param folder: for what the trials write.
    """

    options: ApplyOptions
    limits: Limits
    label: str
    recipe: Path
    folder: Path
    shared: SharedProcess | None
    diagnosed: Diagnosed | None = None

    @contextmanager
    def opened(self) -> Iterator[ScriptTrials]:
        """Yield these trials in a new folder, and in a process each."""
        with look_folder() as folder:
            yield attrs.evolve(self, folder=folder, shared=None)

    def request_for(self, text: str) -> Request:
        """Return the request of a recipe with this text.

        :raises InputError: for input of the user's that is wrong.
        """
        from tfopt_core.app.command_request import make_request

        with without_places(self.label, self.recipe):
            request, _ = make_request(
                self.recipe, self.options.overrides, compares=False, keeps=False, text=text,
                debug=self.options.debug,
            )  # fmt: skip
        return attrs.evolve(request, folder=self.folder / "runs" / self.recipe.stem)

    def attempt(self, draft: Draft) -> Tried:
        """Build the script with the stack of a draft, and time its first steps.

        :raises TfoptError: if that is not possible, or takes too long.
        """
        from tfopt_core.diagnosis.screening import Tried

        prepared, resolved = self._prepared(draft)
        assert self.diagnosed is not None
        estimate = self.diagnosed.estimate
        whole = None if estimate is None else estimate.seconds
        prepared = attrs.evolve(prepared, training_seconds=whole)
        with_stack, now = prepared.stack_estimate, prepared.baseline_estimate
        if with_stack is not None and now is not None and estimate is not None:
            with_stack = with_stack.at_pace(estimate, now)
        return Tried(
            (prepared, resolved), with_stack, prepared.not_applied, prepared.resolved,
            {plugin.name: plugin.equivalence for plugin in prepared.plugins},
        )  # fmt: skip

    def _prepared(self, draft: Draft) -> tuple[Prepared, Request]:
        from tfopt_core.diagnosis.screening import try_seconds
        from tfopt_core.trials.preparation import prepare
        from tfopt_core.workers.spawn import SpawnRunner

        assert self.diagnosed is not None
        diagnosed = self.diagnosed
        trial = self.request_for(draft.text())
        seconds = try_seconds(diagnosed.estimate, diagnosed.measuring_seconds)
        if self.shared is not None:
            self.shared.limits = attrs.evolve(self.limits, called_off=_after(seconds, 0.0))
            with suppress(CannotShare):
                return prepare(trial, self.shared, quick=True, follows=True)
        to_the_fit = diagnosed.seconds - diagnosed.measuring_seconds
        called_off = _after(seconds, to_the_fit)
        limited = SpawnRunner(limits=attrs.evolve(self.limits, called_off=called_off))
        return prepare(trial, limited, quick=True)


@contextmanager
def look_folder() -> Iterator[Path]:
    """Yield a folder for what a look at a script writes, and remove it."""
    with tempfile.TemporaryDirectory(prefix="tfopt-look-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _after(seconds: float, to_the_fit: float) -> Callable[[], str | None]:
    """Return a function that returns why to stop a trial, None if it may go on.

    :param to_the_fit: seconds that the script takes to reach its fit.
    """
    end = monotonic() + to_the_fit + seconds

    def late() -> str | None:
        return f"it took more than {seconds:.0f} s to try" if monotonic() > end else None

    return late
