"""The report of one run by its process. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tfopt_core.hooks import Effect
from tfopt_core.records.fit import FitOutcome


@attrs.frozen(kw_only=True)
class RunFacts:
    """The facts of a run that its result keeps unchanged.

    `cpu_seconds` are what all of the process computed. Of a script: `wall_seconds` are those of its
    calls of `fit` together, or of the `judged` one, which is an index of the run's fits;
    `exit_status` is the script's own; `after_fits` is what it raised, or how it exited, after the
    last fit that is judged; `out_of_memory` says that memory ran out, on the machine or a device,
    and ended the run; `notes` are texts for the user, and `written` the files that it has
    left in its private folder.
    """

    wall_seconds: float | None = None
    peak_rss_bytes: int | None = None
    peak_device_bytes: int | None = None
    cpu_seconds: float | None = None
    effects: Mapping[str, Effect] = attrs.field(factory=dict)
    judged: int | None = None
    exit_status: int | None = None
    after_fits: str | None = None
    out_of_memory: bool = False
    notes: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RunReport(RunFacts):
    """The report of a run at its end.

    `fits` are all that were trained, in the order of their calls. `script_error` is what a script
    raised before they were done; `diverged` says that the loss of a judged fit, or the loss or a
    weight of a script's own loop, was not finite.
    """

    fits: tuple[FitOutcome, ...]
    script_error: str | None = None
    diverged: str | None = None

    @property
    def why_failed(self) -> str | None:
        """Why the run does not count although it ended; None if it counts."""
        if self.script_error is not None:
            return self.script_error
        if self.exit_status and self.after_fits is None:
            return f"the script ended with status {self.exit_status}"
        return self.diverged
