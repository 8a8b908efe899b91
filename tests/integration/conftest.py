"""What the integration tests share: one measurement that many tests look at."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

SECRET = "hunter2-is-no-password"
# Real flights; of the validation data a few, a map that does little and a network of one layer:
# each of the processes traces them anew, which takes longer than the training.
LOUD = """
    import attrs
    from tfopt_core.data import Take
    from tfopt_workloads import flights

    def build_model():
        import keras

        inputs = keras.Input((10,), name="numbers"), keras.Input((3,), name="codes")
        hidden = keras.layers.Dense(128, activation="relu")(inputs[0])
        return keras.Model({one.name: one for one in inputs}, keras.layers.Dense(1)(hidden))

    def build(**options):
        print("THE WORKLOAD SPEAKS", flush=True)
        workload = flights.build(**options)
        few = workload.validation.insert(1, Take(count=640))
        _, auc = workload.metrics
        return attrs.evolve(
            workload, train=workload.train.map(lambda x, y: (x, y)), validation=few,
            build_model=build_model, optimizer="sgd", metrics=[auc],
        )
"""
RECIPE = """
    name = "shared"
    [workload]
    factory = "loud.py:build"
    epochs = 2
    batch_size = 64
    [workload.options]
    examples = 640
    prepare = "ahead"
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
    from support.forked_command import HASTY
    from support.real_process import environment, make_project, tfopt

    project = make_project(tmp_path_factory.mktemp("applied"), RECIPE, loud=LOUD)
    done = tfopt(
        "apply", "recipe.toml", "--json", "out.json",
        cwd=project, env=environment(FOO_TOKEN=SECRET), before=HASTY,
    )  # fmt: skip
    assert (project / "out.json").exists(), done.err
    data = json.loads((project / "out.json").read_text())
    return Applied(project, done.code, done.out, done.err, data)
