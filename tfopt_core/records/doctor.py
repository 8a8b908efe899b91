"""What `tfopt doctor` finds out about this machine."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class DoctorFinding:
    """One thing about this machine: good, not good (with its mend), or, with None, just so."""

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""
