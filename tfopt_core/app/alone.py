"""Let one process at a time measure in a project: the others wait, and say for whom."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfopt_core.errors import InputError
from tfopt_core.store.lock import measuring_alone

if TYPE_CHECKING:
    from tfopt_core.app.view import View

# Whoever has the lock and has not written its name yet.
UNNAMED = "another tfopt"


@contextmanager
def alone_in_project(
    results: Path, command: str, view: View, *, no_wait: bool = False
) -> Iterator[None]:
    """Wait until no other measurement is under way in a project, and keep others waiting.

    :param results: the folder of the project's results.
    :param command: the command of this process, for those that wait.
    :param view: shows who is waited for.
    :param no_wait: do not wait.
    :raises InputError: with `no_wait`, naming the process that measures.
    :raises StoreError: if the folder cannot be written.
    """
    own = f'process {os.getpid()} ("{command}")'
    with ExitStack() as shown:
        on_phase: Callable[[str], None] | None = None

        def wait(other: str) -> None:
            nonlocal on_phase
            if no_wait:
                raise InputError(
                    f'{other or UNNAMED} is measuring in "{results.parent}"; leave --no-wait out '
                    "to wait for it"
                )
            on_phase = on_phase or shown.enter_context(view.phases())
            on_phase(f"waiting for {other or UNNAMED}, which is measuring in this project")

        with measuring_alone(results, own, wait):
            shown.close()
            yield
