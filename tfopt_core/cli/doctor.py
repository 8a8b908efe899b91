"""`tfopt doctor`: check what this machine can do."""

from __future__ import annotations

import rich_click as click

from tfopt_core.cli.options import debug_option


@click.command()
@debug_option
def doctor(debug: bool) -> int:
    """Check this machine: Python, TensorFlow, CPU, GPUs, memory, data sets.

    Private members of TensorFlow and Keras that tfopt uses and that are missing are listed, with
    the features that need them. Ends with status 1 if something is missing that training needs.
    """
    from tfopt_core.app.doctor import examine
    from tfopt_core.report.listing import render_doctor
    from tfopt_core.report.style.console import make_console

    findings = examine()
    make_console().print(render_doctor(findings))
    return 1 if any(finding.ok is False for finding in findings) else 0
