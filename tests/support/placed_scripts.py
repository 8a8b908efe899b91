"""Scripts of tests/integration/scripts in a folder of a test's own, and one run of them."""

import shutil
from pathlib import Path

import attrs

from support.forked_command import runs_forked
from tfopt_core.commands.request import make_request
from tfopt_core.statistics.runs import BASELINE, RunResult
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers.spawn import SpawnRunner

SCRIPTS = Path(__file__).parents[1] / "integration" / "scripts"


def placed(folder: Path, name: str) -> Path:
    """A copy of the script, where it may write."""
    source = SCRIPTS / f"{name}.py"
    return Path(shutil.copy(source, folder / source.name))


def recipe_for(script: Path, *lines: str) -> Path:
    """A recipe of the script beside it, with further lines."""
    path = script.with_name("recipe.toml")
    path.write_text("\n".join(["[workload]", f'script = "{script.name}"', *lines, ""]))
    return path


def one_run(recipe: Path) -> RunResult:
    """A run of the recipe's stack, in a process that has imported TensorFlow before the script."""
    request, _ = make_request(str(recipe), [], compares=False, keeps=False)
    request = attrs.evolve(request, folder=recipe.parent / ".tfopt" / "runs")
    scheduled = ScheduledRun(0, 0, Variant(BASELINE, request.plugins), seed=3)
    with runs_forked():
        return Processes(request, SpawnRunner()).run(scheduled, "run", lambda message: None)
