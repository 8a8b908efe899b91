"""The findings of `tfopt doctor`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class DoctorFinding:
    """A fact about this machine; `ok` is False if it needs a mend, None if it is neutral."""

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""
