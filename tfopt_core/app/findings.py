"""What the checks of `tfopt doctor` and `tfopt plugins check` found."""

from __future__ import annotations

import attrs


@attrs.frozen
class DoctorFinding:
    """A fact about this machine or a plugin.

    `ok` is False if it needs a mend, None if it is neutral.
    """

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""
