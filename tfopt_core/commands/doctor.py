"""`tfopt doctor`: check what this machine can do."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option


@click.command()
@json_option
@debug_option
def doctor(json_path: Path | None, debug: bool) -> int:
    """Check this machine: Python, TensorFlow, CPU, GPUs, memory, data sets.

    Private members of TensorFlow and Keras that tfopt uses and that are missing are listed, with
    the features that need them. Ends with status 1 if something is missing that training needs.
    """
    from tfopt_core.app.doctor import examine
    from tfopt_core.commands.output import show_list
    from tfopt_core.report.listing import render_doctor

    findings = examine()
    ok = all(finding.ok is not False for finding in findings)
    show_list(render_doctor(findings), json_path, ok=ok, findings=findings)
    return 0 if ok else 1
