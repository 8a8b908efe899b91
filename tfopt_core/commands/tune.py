"""`tfopt tune`: search for the fastest stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.output import ReportFiles
from tfopt_core.report.style.console import make_console


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=shared.recipes_and_files)
@shared.set_option
@click.option(
    "--budget", metavar="TIME",
    help="The time of the search and of measuring its winner: 15m, 1h; the recipe's, or 15m, by "
    "default.",
)  # fmt: skip
@click.option(
    "--plugin", "plugins", multiple=True, metavar="NAME", shell_complete=shared.plugin_names,
    help="Try only the plugins that this option names; may be repeated.",
)  # fmt: skip
@click.option(
    "--write", "write_to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the winner's recipe goes, in place of NAME.tuned.toml.",
)  # fmt: skip
@shared.report_option()
@click.option(
    "--resume", "resuming", is_flag=True, help="Go on with the search of TARGET that was stopped."
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Ignore earlier trials of stacks, and delete Optuna's earlier study of the settings.",
)
@click.option(
    "--time-limit", metavar="TIME",
    help="End a process of the search that takes longer; by default a sixth of the budget, at "
    "least 2 min.",
)  # fmt: skip
@click.option(
    "--storage", metavar="URL",
    help="Share the search of settings with the same command on other machines, by a database.",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@shared.debug_option
def tune(files: ReportFiles, quiet: bool, **options: Any) -> int:
    """Search for the stack with which TARGET trains fastest here, and measure it.

    TARGET is a recipe, the name of one that ships, or a script (train.py). A diagnosis finds what
    limits a step. The installed plugins that can shorten that part are tried by short runs with
    and without them: first all proposed ones together, then one after another. Plugins of the best
    stack that do not earn their place are taken out again. The gain that is printed comes only
    from fresh runs of the winner against the baseline. The winner's recipe goes to
    NAME.tuned.toml. A second search begins from the trials of the first.

    With sampler, pruner, trials or options in [tune], the settings of the plugins that stay and
    the workload's options are searched too, by Optuna (in the checkout: pip install '.[tune]').
    """
    from tfopt_core.commands.search import tune as search
    from tfopt_core.report.tuning import render_tuned
    from tfopt_core.tuning.context import TuneOptions

    result = search(TuneOptions(**options), make_console(stderr=True, quiet=quiet))
    files.show(render_tuned(result), result)
    return 130 if result.interrupted else 0
