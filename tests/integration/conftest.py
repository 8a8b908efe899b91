"""What the integration tests share: one measurement that many tests look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

SECRET = "hunter2-is-no-password"
# Real flights; of the validation data a few, so that an epoch takes a moment.
LOUD = """
    import attrs
    from tfopt_core.data import Take
    from tfopt_workloads import flights

    def build(**options):
        print("THE WORKLOAD SPEAKS", flush=True)
        workload = flights.build(**options)
        few = workload.validation.insert(1, Take(count=640))
        return attrs.evolve(workload, validation=few)
"""
RECIPE = """
    name = "shared"
    [workload]
    factory = "loud.py:build"
    epochs = 2
    batch_size = 64
    [workload.options]
    examples = 640
    prepare = "map"
    [[plugins]]
    use = "cache"
    [[plugins]]
    use = "prefetch"
    [[plugins]]
    use = "steps-per-execution"
    steps = 4
    [measure]
    pairs = 4
    attribution = "off"
"""


@attrs.frozen
class Applied:
    """One finished `tfopt apply`: its project, how it ended, and what `--json` wrote."""

    project: Path
    code: int
    out: str
    err: str
    data: dict[str, Any]


@pytest.fixture(scope="session")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """`tfopt apply recipe.toml --json out.json` on real data, its output piped."""
    from support.real_process import environment, make_project, tfopt

    project = make_project(tmp_path_factory.mktemp("applied"), RECIPE, loud=LOUD)
    done = tfopt(
        "apply", "recipe.toml", "--json", "out.json",
        cwd=project, env=environment(FOO_TOKEN=SECRET),
    )  # fmt: skip
    assert (project / "out.json").exists(), done.err
    data = json.loads((project / "out.json").read_text())
    return Applied(project, done.code, done.out, done.err, data)


@pytest.fixture
def float32_afterwards() -> Any:
    """Puts Keras' dtype policy back."""
    import keras

    yield
    keras.config.set_dtype_policy("float32")
